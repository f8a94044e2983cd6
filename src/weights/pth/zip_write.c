/* A zip archive is written: each record behind its header, the list at the end.
 *
 * A content's checksum is known once it went by; then it is put into the header before it, so that
 * no descriptor stands behind it.  zip64 parts are there only where a number needs them. */
#include "weights/pth/zip_write.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"

enum { ALIGN = 64, CRC_PLACE = 14 /* in a record's header */, UTF8 = 0x800, HEADER = 128 };
static const uint64_t WIDE = 0xffffffff; /* numbers from here on stand in the zip64 part */

/* Numbers, little-endian, one behind the other. */
typedef struct line {
  unsigned char data[HEADER];
  size_t n;
} line_t;

struct ct__zip_out {
  char *path, *temporary;
  FILE *f;
  int64_t at;      /* bytes of the file so far */
  int64_t left;    /* bytes that the last record lacks */
  uint32_t crc;    /* of what it has */
  ct_zip_t zip;    /* what was begun */
  int64_t *header; /* [zip.n] where each record's header is */
  int64_t header_cap;
};

static void number(line_t *l, int bytes, uint64_t value)
{
  for (int i = 0; i < bytes; i++)
    l->data[l->n++] = (unsigned char)(value >> (8 * i));
}

static int failed(const ct__zip_out_t *o)
{
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write: %s", o->temporary,
                    strerror(errno));
}

static int raw(ct__zip_out_t *o, const void *from, size_t bytes)
{
  ct_beat_file(o->temporary);
  int good = fwrite(from, 1, bytes, o->f) == bytes;
  ct_beat_file(NULL);
  if (!good) return failed(o);
  o->at += (int64_t)bytes;
  return CT_OK;
}

/* What both a record's header and its line in the list have, from "version needed" on. */
static void common(line_t *l, const ct_zip_record_t *r, int wide, int extra)
{
  uint64_t size = (uint64_t)r->bytes;
  number(l, 2, wide ? 45 : 20);
  number(l, 2, UTF8);
  number(l, 2, 0);    /* stored */
  number(l, 2, 0);    /* time */
  number(l, 2, 0x21); /* date: 1980-01-01, so that the same weights are the same bytes */
  number(l, 4, r->crc);
  number(l, 4, size < WIDE ? size : WIDE);
  number(l, 4, size < WIDE ? size : WIDE);
  number(l, 2, strlen(r->name));
  number(l, 2, (uint64_t)extra);
}

static int add_record(ct__zip_out_t *o, const char *name, int64_t bytes)
{
  int rc = CT_OK;
  ct_zip_t *z = &o->zip;
  if (o->left > 0)
    CT_FAIL(CT_ERR_ARG, "%s: record '%s' is not whole", o->path, z->record[z->n - 1].name);
  CT_TRY(ct_mem_grow((void **)&z->record, &z->cap, z->n + 1, sizeof *z->record));
  CT_TRY(ct_mem_grow((void **)&o->header, &o->header_cap, z->n + 1, sizeof *o->header));
  char *copy = ct_mem_strdup(name);
  if (!copy) CT_TRY(CT_ERR_NOMEM);
  o->header[z->n] = o->at;
  z->record[z->n++] = (ct_zip_record_t){.name = copy, .bytes = bytes};
out:
  return rc;
}

/* The padding is an extra field of its own, as torch.save() has it. */
static void pad(const ct__zip_out_t *o, line_t *extra, size_t name)
{
  int64_t fixed = o->at + CT_ZIP_LOCAL_BYTES + (int64_t)name + (int64_t)extra->n + 4;
  int64_t fill = ct_round_up(fixed, ALIGN) - fixed;
  number(extra, 2, 0x4246); /* "FB" */
  number(extra, 2, (uint64_t)fill);
  for (int64_t i = 0; i < fill; i++)
    number(extra, 1, 'Z');
}

/* The checksum of what went by. */
static int seal(ct__zip_out_t *o)
{
  int rc = CT_OK;
  int64_t last = o->zip.n - 1;
  line_t crc = {.n = 0};
  o->zip.record[last].crc = o->crc;
  number(&crc, 4, o->crc);
  if (fseeko(o->f, o->header[last] + CRC_PLACE, SEEK_SET) != 0 ||
      fwrite(crc.data, 1, crc.n, o->f) != crc.n || fseeko(o->f, o->at, SEEK_SET) != 0)
    CT_TRY(failed(o));
out:
  return rc;
}

int ct__zip_begin(ct__zip_out_t *o, const char *name, int64_t bytes)
{
  int rc = CT_OK, wide = (uint64_t)bytes >= WIDE;
  line_t l = {.n = 0}, extra = {.n = 0};
  CT_TRY(add_record(o, name, bytes));
  ct_zip_record_t *r = &o->zip.record[o->zip.n - 1];
  if (wide) {
    number(&extra, 2, 1);
    number(&extra, 2, 16);
    number(&extra, 8, (uint64_t)bytes);
    number(&extra, 8, (uint64_t)bytes);
  }
  pad(o, &extra, strlen(name));
  number(&l, 4, CT_ZIP_LOCAL);
  common(&l, r, wide, (int)extra.n);
  CT_TRY(raw(o, l.data, l.n));
  CT_TRY(raw(o, name, strlen(name)));
  CT_TRY(raw(o, extra.data, extra.n));
  r->at = o->at;
  o->left = bytes;
  o->crc = 0;
out:
  return rc;
}

int ct__zip_write(ct__zip_out_t *o, const void *from, int64_t bytes)
{
  int rc = CT_OK;
  if (bytes == 0) goto out;
  if (bytes > o->left) CT_FAIL(CT_ERR_ARG, "%s: more bytes than its record has", o->path);
  CT_TRY(raw(o, from, (size_t)bytes));
  o->crc = libdeflate_crc32(o->crc, from, (size_t)bytes);
  o->left -= bytes;
  if (o->left == 0) CT_TRY(seal(o));
out:
  return rc;
}

int64_t ct__zip_left(const ct__zip_out_t *o)
{
  return o->left;
}

int ct__zip_put(ct__zip_out_t *o, const char *name, const void *from, int64_t bytes)
{
  int rc = CT_OK;
  CT_TRY(ct__zip_begin(o, name, bytes));
  CT_TRY(ct__zip_write(o, from, bytes));
out:
  return rc;
}

/* ---- the list ---- */

static int write_line(ct__zip_out_t *o, int64_t i)
{
  int rc = CT_OK;
  const ct_zip_record_t *r = &o->zip.record[i];
  uint64_t size = (uint64_t)r->bytes, header = (uint64_t)o->header[i];
  line_t l = {.n = 0}, extra = {.n = 0};
  int wide = (size >= WIDE ? 16 : 0) + (header >= WIDE ? 8 : 0);
  if (wide) {
    number(&extra, 2, 1);
    number(&extra, 2, (uint64_t)wide);
  }
  for (int k = 0; k < 2 && size >= WIDE; k++)
    number(&extra, 8, size);
  if (header >= WIDE) number(&extra, 8, header);
  number(&l, 4, CT_ZIP_CENTRAL);
  number(&l, 2, wide ? 45 : 20); /* made by */
  common(&l, r, wide, (int)extra.n);
  number(&l, 8, 0); /* comment, volume, attributes inside */
  number(&l, 2, 0); /* attributes outside: 4 bytes */
  number(&l, 4, header < WIDE ? header : WIDE);
  CT_TRY(raw(o, l.data, l.n));
  CT_TRY(raw(o, r->name, strlen(r->name)));
  CT_TRY(raw(o, extra.data, extra.n));
out:
  return rc;
}

static void end64(line_t *l, uint64_t n, uint64_t list, uint64_t bytes)
{
  number(l, 4, CT_ZIP_END64);
  number(l, 8, CT_ZIP_END64_BYTES - 12); /* what follows */
  number(l, 2, 45);
  number(l, 2, 45);
  number(l, 8, 0); /* volumes */
  number(l, 8, n);
  number(l, 8, n);
  number(l, 8, bytes);
  number(l, 8, list);
  number(l, 4, CT_ZIP_LOCATOR);
  number(l, 4, 0);
  number(l, 8, list + bytes);
  number(l, 4, 1);
}

static int write_list(ct__zip_out_t *o)
{
  int rc = CT_OK;
  uint64_t list = (uint64_t)o->at, n = (uint64_t)o->zip.n;
  line_t l = {.n = 0};
  for (int64_t i = 0; i < o->zip.n; i++)
    CT_TRY(write_line(o, i));
  uint64_t bytes = (uint64_t)o->at - list;
  if (n >= 0xffff || list >= WIDE || bytes >= WIDE) end64(&l, n, list, bytes);
  number(&l, 4, CT_ZIP_END);
  number(&l, 4, 0); /* volumes */
  number(&l, 2, n < 0xffff ? n : 0xffff);
  number(&l, 2, n < 0xffff ? n : 0xffff);
  number(&l, 4, bytes < WIDE ? bytes : WIDE);
  number(&l, 4, list < WIDE ? list : WIDE);
  number(&l, 2, 0); /* comment */
  CT_TRY(raw(o, l.data, l.n));
out:
  return rc;
}

/* ---- the file ---- */

static void free_out(ct__zip_out_t *o)
{
  if (o->f) fclose(o->f);
  ct_zip_clear(&o->zip);
  ct_mem_free(o->header);
  ct_mem_free(o->temporary);
  ct_mem_free(o->path);
  ct_mem_free(o);
}

int ct__zip_create(const char *path, ct__zip_out_t **out)
{
  int rc = CT_OK;
  char temporary[CT_PATH_MAX];
  *out = NULL;
  ct__zip_out_t *o = ct_mem_alloc(sizeof *o, "an archive");
  if (!o) return CT_ERR_NOMEM;
  CT_TRY(ct_text_format(temporary, sizeof temporary, "%s.tmp", path));
  o->path = ct_mem_strdup(path);
  o->temporary = ct_mem_strdup(temporary);
  if (!o->path || !o->temporary) CT_TRY(CT_ERR_NOMEM);
  ct_beat_file(temporary);
  o->f = ct_file_new_stream(temporary);
  ct_beat_file(NULL);
  if (!o->f) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", temporary, strerror(errno));
  *out = o;
  o = NULL;
out:
  if (o) free_out(o);
  return rc;
}

int ct__zip_commit(ct__zip_out_t *o)
{
  int rc = CT_OK;
  if (o->left > 0)
    CT_FAIL(CT_ERR_ARG, "%s: record '%s' is not whole", o->path, o->zip.record[o->zip.n - 1].name);
  CT_TRY(write_list(o));
  ct_beat_file(o->temporary);
  int closed = fclose(o->f) == 0; /* a full disk is told here */
  ct_beat_file(NULL);
  o->f = NULL;
  if (!closed) CT_TRY(failed(o));
  CT_TRY(ct_file_commit(o->temporary, o->path));
out:
  if (rc != CT_OK) ct_file_remove(o->temporary);
  free_out(o);
  return rc;
}

void ct__zip_discard(ct__zip_out_t *o)
{
  if (!o) return;
  ct_file_remove(o->temporary);
  free_out(o);
}
