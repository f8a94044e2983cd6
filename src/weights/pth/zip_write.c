/* Writes a zip archive: records, each after its header, then the central directory.
 *
 * The checksum of a record is known only after its content was written.  It is then stored in the
 * header, so that no data descriptor is needed.  zip64 fields are written only for numbers that
 * exceed 32 bits. */
#include "weights/pth/zip_write.h"

#include <libdeflate.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "base/ct_out.h"

enum { ALIGN = 64, CRC_PLACE = 14 /* in a record's header */, UTF8 = 0x800, HEADER = 128 };
static const uint64_t WIDE = 0xffffffff; /* numbers from here on go to the zip64 field */

/* A buffer for a header: consecutive little-endian numbers. */
typedef struct line {
  unsigned char data[HEADER];
  size_t n;
} line_t;

struct ct__zip_out {
  ct_out_t file;
  int64_t left;    /* bytes still to be written to the last record */
  uint32_t crc;    /* checksum of its content so far */
  ct_zip_t zip;    /* all records, the last one perhaps incomplete */
  int64_t *header; /* [zip.n] offset of each record's header */
  int64_t header_cap;
};

static void zip_write_number(line_t *l, int bytes, uint64_t value)
{
  for (int i = 0; i < bytes; i++)
    l->data[l->n++] = (unsigned char)(value >> (8 * i));
}

/* Writes the fields common to a record's header and its entry in the central directory, from
 * "version needed" on. */
static void common(line_t *l, const ct_zip_record_t *r, int wide, int extra)
{
  uint64_t size = (uint64_t)r->bytes;
  zip_write_number(l, 2, wide ? 45 : 20);
  zip_write_number(l, 2, UTF8);
  zip_write_number(l, 2, 0);    /* stored */
  zip_write_number(l, 2, 0);    /* time */
  zip_write_number(l, 2, 0x21); /* date: 1980-01-01, so that equal weights give equal files */
  zip_write_number(l, 4, r->crc);
  zip_write_number(l, 4, size < WIDE ? size : WIDE);
  zip_write_number(l, 4, size < WIDE ? size : WIDE);
  zip_write_number(l, 2, strlen(r->name));
  zip_write_number(l, 2, (uint64_t)extra);
}

static int add_record(ct__zip_out_t *o, const char *name, int64_t bytes)
{
  int rc = CT_OK;
  ct_zip_t *z = &o->zip;
  if (o->left > 0)
    CT_FAIL(CT_ERR_ARG, "%s: record '%s' is incomplete", o->file.path, z->record[z->n - 1].name);
  CT_TRY(ct_mem_grow((void **)&z->record, &z->cap, z->n + 1, sizeof *z->record));
  CT_TRY(ct_mem_grow((void **)&o->header, &o->header_cap, z->n + 1, sizeof *o->header));
  char *copy = ct_mem_strdup(name);
  if (!copy) CT_TRY(CT_ERR_NOMEM);
  o->header[z->n] = o->file.at;
  z->record[z->n++] = (ct_zip_record_t){.name = copy, .bytes = bytes};
out:
  return rc;
}

/* Pads the header with an extra field so that the content is aligned, as torch.save() does. */
static void pad(const ct__zip_out_t *o, line_t *extra, size_t name)
{
  int64_t fixed = o->file.at + CT_ZIP_LOCAL_BYTES + (int64_t)name + (int64_t)extra->n + 4;
  int64_t fill = ct_round_up(fixed, ALIGN) - fixed;
  zip_write_number(extra, 2, 0x4246); /* "FB" */
  zip_write_number(extra, 2, (uint64_t)fill);
  for (int64_t i = 0; i < fill; i++)
    zip_write_number(extra, 1, 'Z');
}

/* Stores the checksum of the last record in its header. */
static int seal(ct__zip_out_t *o)
{
  int64_t last = o->zip.n - 1;
  line_t crc = {.n = 0};
  o->zip.record[last].crc = o->crc;
  zip_write_number(&crc, 4, o->crc);
  return ct_out_put_at(&o->file, o->header[last] + CRC_PLACE, crc.data, (int64_t)crc.n);
}

int ct__zip_begin(ct__zip_out_t *o, const char *name, int64_t bytes)
{
  int rc = CT_OK, wide = (uint64_t)bytes >= WIDE;
  line_t l = {.n = 0}, extra = {.n = 0};
  CT_TRY(add_record(o, name, bytes));
  ct_zip_record_t *r = &o->zip.record[o->zip.n - 1];
  if (wide) {
    zip_write_number(&extra, 2, 1);
    zip_write_number(&extra, 2, 16);
    zip_write_number(&extra, 8, (uint64_t)bytes);
    zip_write_number(&extra, 8, (uint64_t)bytes);
  }
  pad(o, &extra, strlen(name));
  zip_write_number(&l, 4, CT_ZIP_LOCAL);
  common(&l, r, wide, (int)extra.n);
  CT_TRY(ct_out_put(&o->file, l.data, (int64_t)l.n));
  CT_TRY(ct_out_put(&o->file, name, (int64_t)strlen(name)));
  CT_TRY(ct_out_put(&o->file, extra.data, (int64_t)extra.n));
  r->at = o->file.at;
  o->left = bytes;
  o->crc = 0;
out:
  return rc;
}

int ct__zip_write(ct__zip_out_t *o, const void *from, int64_t bytes)
{
  int rc = CT_OK;
  if (bytes == 0) goto out;
  if (bytes > o->left)
    CT_FAIL(CT_ERR_ARG, "%s: more bytes than the size of the record", o->file.path);
  CT_TRY(ct_out_put(&o->file, from, bytes));
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

/* ---- the central directory ---- */

static int write_line(ct__zip_out_t *o, int64_t i)
{
  int rc = CT_OK;
  const ct_zip_record_t *r = &o->zip.record[i];
  uint64_t size = (uint64_t)r->bytes, header = (uint64_t)o->header[i];
  line_t l = {.n = 0}, extra = {.n = 0};
  int wide = (size >= WIDE ? 16 : 0) + (header >= WIDE ? 8 : 0);
  if (wide) {
    zip_write_number(&extra, 2, 1);
    zip_write_number(&extra, 2, (uint64_t)wide);
  }
  for (int k = 0; k < 2 && size >= WIDE; k++)
    zip_write_number(&extra, 8, size);
  if (header >= WIDE) zip_write_number(&extra, 8, header);
  zip_write_number(&l, 4, CT_ZIP_CENTRAL);
  zip_write_number(&l, 2, wide ? 45 : 20); /* version made by */
  common(&l, r, wide, (int)extra.n);
  zip_write_number(&l, 8, 0); /* comment, volume, internal attributes */
  zip_write_number(&l, 2, 0); /* external attributes, 4 bytes with the next line */
  zip_write_number(&l, 4, header < WIDE ? header : WIDE);
  CT_TRY(ct_out_put(&o->file, l.data, (int64_t)l.n));
  CT_TRY(ct_out_put(&o->file, r->name, (int64_t)strlen(r->name)));
  CT_TRY(ct_out_put(&o->file, extra.data, (int64_t)extra.n));
out:
  return rc;
}

static void end64(line_t *l, uint64_t n, uint64_t list, uint64_t bytes)
{
  zip_write_number(l, 4, CT_ZIP_END64);
  zip_write_number(l, 8, CT_ZIP_END64_BYTES - 12); /* remaining size */
  zip_write_number(l, 2, 45);
  zip_write_number(l, 2, 45);
  zip_write_number(l, 8, 0); /* volumes */
  zip_write_number(l, 8, n);
  zip_write_number(l, 8, n);
  zip_write_number(l, 8, bytes);
  zip_write_number(l, 8, list);
  zip_write_number(l, 4, CT_ZIP_LOCATOR);
  zip_write_number(l, 4, 0);
  zip_write_number(l, 8, list + bytes);
  zip_write_number(l, 4, 1);
}

static int write_list(ct__zip_out_t *o)
{
  int rc = CT_OK;
  uint64_t list = (uint64_t)o->file.at, n = (uint64_t)o->zip.n;
  line_t l = {.n = 0};
  for (int64_t i = 0; i < o->zip.n; i++)
    CT_TRY(write_line(o, i));
  uint64_t bytes = (uint64_t)o->file.at - list;
  if (n >= 0xffff || list >= WIDE || bytes >= WIDE) end64(&l, n, list, bytes);
  zip_write_number(&l, 4, CT_ZIP_END);
  zip_write_number(&l, 4, 0); /* volumes */
  zip_write_number(&l, 2, n < 0xffff ? n : 0xffff);
  zip_write_number(&l, 2, n < 0xffff ? n : 0xffff);
  zip_write_number(&l, 4, bytes < WIDE ? bytes : WIDE);
  zip_write_number(&l, 4, list < WIDE ? list : WIDE);
  zip_write_number(&l, 2, 0); /* comment */
  CT_TRY(ct_out_put(&o->file, l.data, (int64_t)l.n));
out:
  return rc;
}

/* ---- the file ---- */

int ct__zip_create(const char *path, ct__zip_out_t **out)
{
  int rc = CT_OK;
  ct__zip_out_t *o = *out = ct_mem_alloc(sizeof *o, "an archive");
  if (!o) return CT_ERR_NOMEM;
  CT_TRY(ct_out_begin(&o->file, path));
out:
  if (rc != CT_OK) {
    ct__zip_discard(o);
    *out = NULL;
  }
  return rc;
}

int ct__zip_commit(ct__zip_out_t *o)
{
  int rc = CT_OK;
  if (o->left > 0)
    CT_FAIL(CT_ERR_ARG, "%s: record '%s' is incomplete", o->file.path,
            o->zip.record[o->zip.n - 1].name);
  CT_TRY(write_list(o));
  CT_TRY(ct_out_commit(&o->file));
out:
  ct__zip_discard(o);
  return rc;
}

void ct__zip_discard(ct__zip_out_t *o)
{
  if (!o) return;
  ct_out_drop(&o->file);
  ct_zip_clear(&o->zip);
  ct_mem_free(o->header);
  ct_mem_free(o);
}
