/* Locates the records of a zip archive.
 *
 * The central directory is authoritative; each record's own header must have the same name, and
 * records may not overlap, so that files that other programs would read differently are
 * rejected. */
#include "weights/pth/ct_zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

enum {
  LIST_BYTES = 256 << 20, /* maximum size of the central directory */
  NAME_BYTES = 1024,
  COMMENT_BYTES = 65535
};
static const uint32_t OTHERWISE16 = 0xffff, OTHERWISE32 = 0xffffffff; /* "see the zip64 field" */

/* State of reading an archive. */
typedef struct in {
  int fd;
  const char *path;
  int64_t bytes;      /* file size */
  int64_t list;       /* offset of the central directory */
  int64_t list_bytes; /* size of the central directory */
  int64_t count;      /* number of records */
  ct_zip_t *zip;
} in_t;

/* ---- end record ---- */

/* Returns the position of the end record in the last `n` bytes of the file; -1: not found. */
static int64_t find_end(const unsigned char *tail, int64_t n)
{
  for (int64_t i = n - CT_ZIP_END_BYTES; i >= 0; i--)
    if (ct_zip_u32(tail + i) == CT_ZIP_END &&
        i + CT_ZIP_END_BYTES + (int64_t)ct_zip_u16(tail + i + 20) == n)
      return i;
  return -1;
}

/* Checks a number from the file against `most`, which is negative if no value is valid. */
static int bounded(uint64_t value, int64_t most, int64_t *out)
{
  int good = most >= 0 && value <= (uint64_t)most;
  *out = good ? (int64_t)value : 0;
  return good;
}

/* Reads the zip64 end record, which precedes the locator at `at`. */
static int read_end64(in_t *in, int64_t at)
{
  int rc = CT_OK;
  unsigned char locator[CT_ZIP_LOCATOR_BYTES], end[CT_ZIP_END64_BYTES];
  int64_t place;
  if (at < 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: zip archive without the zip64 record that it needs", in->path);
  CT_TRY(ct_file_read_at(in->fd, in->path, at, locator, sizeof locator));
  if (ct_zip_u32(locator) != CT_ZIP_LOCATOR ||
      !bounded(ct_zip_u64(locator + 8), at - CT_ZIP_END64_BYTES, &place))
    CT_FAIL(CT_ERR_FORMAT, "%s: zip archive without the zip64 record that it needs", in->path);
  CT_TRY(ct_file_read_at(in->fd, in->path, place, end, sizeof end));
  if (ct_zip_u32(end) != CT_ZIP_END64 || ct_zip_u32(end + 16) || ct_zip_u32(end + 20) ||
      ct_zip_u64(end + 24) != ct_zip_u64(end + 32) ||
      !bounded(ct_zip_u64(end + 32), in->bytes, &in->count) ||
      !bounded(ct_zip_u64(end + 40), place, &in->list_bytes) ||
      !bounded(ct_zip_u64(end + 48), place - in->list_bytes, &in->list))
    CT_FAIL(CT_ERR_FORMAT, "%s: the zip64 end record is damaged", in->path);
out:
  return rc;
}

/* Small archives of torch.save() have a zip64 end record too; it is used where the normal one
 * refers to it. */
static int read_end(in_t *in)
{
  int rc = CT_OK;
  int64_t n =
      in->bytes < CT_ZIP_END_BYTES + COMMENT_BYTES ? in->bytes : CT_ZIP_END_BYTES + COMMENT_BYTES;
  unsigned char *tail = ct_mem_alloc((size_t)n + 1, "the end of an archive");
  if (!tail) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(in->fd, in->path, in->bytes - n, tail, (size_t)n));
  int64_t found = find_end(tail, n), at = in->bytes - n + found;
  if (found < 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the central directory of the zip archive is missing: is the file truncated?",
            in->path);
  const unsigned char *end = tail + found;
  if (ct_zip_u16(end + 4) || ct_zip_u16(end + 6) || ct_zip_u16(end + 8) != ct_zip_u16(end + 10))
    CT_FAIL(CT_ERR_FORMAT, "%s: zip archive of several volumes", in->path);
  in->count = ct_zip_u16(end + 10);
  in->list_bytes = ct_zip_u32(end + 12);
  in->list = ct_zip_u32(end + 16);
  if (in->count == OTHERWISE16 || in->list_bytes == OTHERWISE32 || in->list == OTHERWISE32)
    CT_TRY(read_end64(in, at - CT_ZIP_LOCATOR_BYTES));
  if (in->list_bytes > at || in->list > at - in->list_bytes ||
      in->count > in->list_bytes / CT_ZIP_CENTRAL_BYTES)
    CT_FAIL(CT_ERR_FORMAT, "%s: the central directory of the zip archive is damaged", in->path);
  if (in->list_bytes > LIST_BYTES)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the central directory of the zip archive has %" PRId64 " bytes, at most %d",
            in->path, in->list_bytes, LIST_BYTES);
out:
  ct_mem_free(tail);
  return rc;
}

/* ---- a record ---- */

/* Reads 64-bit numbers: sizes and offsets that do not fit into 32 bits are in extra field 1, in
 * this order. */
static int zip_widen(const unsigned char *extra, int64_t n, uint64_t *value[], int values)
{
  int64_t at = 0, size = 0;
  for (; n - at >= 4; at += 4 + size) {
    size = ct_zip_u16(extra + at + 2);
    if (size > n - at - 4) return 0;
    if (ct_zip_u16(extra + at) == 1) break;
  }
  const unsigned char *p = extra + at + 4;
  int64_t left = n - at >= 4 ? size : 0;
  for (int i = 0; i < values; i++) {
    if (*value[i] != OTHERWISE32) continue;
    if (left < 8) return 0;
    *value[i] = ct_zip_u64(p);
    p += 8;
    left -= 8;
  }
  return 1;
}

/* Finds the offset of the content: after the record's own header, which must have the same name. */
static int find_content(const in_t *in, uint64_t header, ct_zip_record_t *r)
{
  int rc = CT_OK;
  unsigned char local[CT_ZIP_LOCAL_BYTES + NAME_BYTES];
  size_t len = strlen(r->name), bytes = CT_ZIP_LOCAL_BYTES + len;
  int64_t at;
  if (!bounded(header, in->list - (int64_t)bytes, &at))
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is outside of the file", in->path, r->name);
  CT_TRY(ct_file_read_at(in->fd, in->path, at, local, bytes));
  if (ct_zip_u32(local) != CT_ZIP_LOCAL || ct_zip_u16(local + 26) != len ||
      memcmp(local + CT_ZIP_LOCAL_BYTES, r->name, len) != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is not at the offset in the central directory",
            in->path, r->name);
  r->at = at + (int64_t)bytes + (int64_t)ct_zip_u16(local + 28);
  if (r->at > in->list || r->bytes > in->list - r->at)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' of %" PRId64 " bytes reaches past its archive",
            in->path, r->name, r->bytes);
out:
  return rc;
}

static int read_name(const in_t *in, const unsigned char *text, uint32_t len, char **out)
{
  int rc = CT_OK;
  char name[NAME_BYTES + 1];
  if (len == 0 || len > NAME_BYTES)
    CT_FAIL(CT_ERR_FORMAT, "%s: a record's name has %u bytes, expected 1 to %d", in->path, len,
            NAME_BYTES);
  for (uint32_t i = 0; i < len; i++) {
    if (text[i] < ' ' || text[i] == 0x7f)
      CT_FAIL(CT_ERR_FORMAT, "%s: a record's name has control characters", in->path);
    name[i] = (char)text[i];
  }
  name[len] = '\0';
  if (!ct_text_is_utf8(name))
    CT_FAIL(CT_ERR_FORMAT, "%s: a record's name is not in UTF-8", in->path);
  *out = ct_mem_strdup(name);
  if (!*out) CT_TRY(CT_ERR_NOMEM);
out:
  return rc;
}

/* Parses one entry of the central directory; *used: its size. */
static int zip_read_line(in_t *in, const unsigned char *line, int64_t left, int64_t *used)
{
  int rc = CT_OK;
  if (left < CT_ZIP_CENTRAL_BYTES || ct_zip_u32(line) != CT_ZIP_CENTRAL)
    CT_FAIL(CT_ERR_FORMAT, "%s: the central directory of the zip archive is damaged", in->path);
  uint32_t name = ct_zip_u16(line + 28), extra = ct_zip_u16(line + 30);
  *used = CT_ZIP_CENTRAL_BYTES + (int64_t)name + extra + ct_zip_u16(line + 32);
  if (*used > left)
    CT_FAIL(CT_ERR_FORMAT, "%s: the central directory of the zip archive is damaged", in->path);
  CT_TRY(ct_mem_grow((void **)&in->zip->record, &in->zip->cap, in->zip->n + 1,
                     sizeof *in->zip->record));
  ct_zip_record_t *r = &in->zip->record[in->zip->n];
  CT_TRY(read_name(in, line + CT_ZIP_CENTRAL_BYTES, name, &r->name));
  in->zip->n++;
  uint64_t plain = ct_zip_u32(line + 24), stored = ct_zip_u32(line + 20);
  uint64_t header = ct_zip_u32(line + 42), *wide[] = {&plain, &stored, &header};
  if (!zip_widen(line + CT_ZIP_CENTRAL_BYTES + name, extra, wide, 3) ||
      !bounded(stored, in->bytes, &r->bytes) || !bounded(plain, INT64_MAX / 2, &r->plain))
    CT_FAIL(CT_ERR_FORMAT, "%s: the size of record '%s' is not valid", in->path, r->name);
  r->packed = (ct_zip_u16(line + 8) & 1) || ct_zip_u16(line + 10) != 0 || stored != plain;
  r->deflated = !(ct_zip_u16(line + 8) & 1) && ct_zip_u16(line + 10) == 8;
  r->crc = ct_zip_u32(line + 16);
  CT_TRY(find_content(in, header, r));
out:
  return rc;
}

static int read_list(in_t *in)
{
  int rc = CT_OK;
  int64_t at = 0, used = 0;
  unsigned char *list = ct_mem_alloc((size_t)in->list_bytes + 1, "the list of an archive");
  if (!list) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(in->fd, in->path, in->list, list, (size_t)in->list_bytes));
  for (int64_t i = 0; i < in->count; i++, at += used)
    CT_TRY(zip_read_line(in, list + at, in->list_bytes - at, &used));
out:
  ct_mem_free(list);
  return rc;
}

/* ---- all records ---- */

static int by_offset(const void *a, const void *b)
{
  const ct_zip_record_t *p = a, *q = b;
  return p->at != q->at ? (p->at > q->at) - (p->at < q->at)
                        : (p->bytes > q->bytes) - (p->bytes < q->bytes);
}

static int zip_by_name(const void *a, const void *b)
{
  return strcmp(((const ct_zip_record_t *)a)->name, ((const ct_zip_record_t *)b)->name);
}

int ct_zip_sort(ct_zip_t *z, const char *path)
{
  int rc = CT_OK;
  ct_zip_record_t *r = z->record;
  size_t n = (size_t)z->n;
  if (n > 0) qsort(r, n, sizeof *r, by_offset);
  for (size_t i = 1; i < n; i++)
    if (r[i].at < r[i - 1].at + r[i - 1].bytes)
      CT_FAIL(CT_ERR_FORMAT, "%s: records '%s' and '%s' overlap", path, r[i - 1].name, r[i].name);
  if (n > 0) qsort(r, n, sizeof *r, zip_by_name);
  for (size_t i = 1; i < n; i++)
    if (strcmp(r[i].name, r[i - 1].name) == 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is there twice", path, r[i].name);
out:
  return rc;
}

int ct_zip_open(int fd, const char *path, int64_t bytes, ct_zip_t *out)
{
  int rc = CT_OK;
  in_t in = {.fd = fd, .path = path, .bytes = bytes, .zip = out};
  *out = (ct_zip_t){0};
  CT_TRY(read_end(&in));
  CT_TRY(read_list(&in));
  if (out->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: the zip archive is empty", path);
  CT_TRY(ct_zip_sort(out, path));
out:
  return rc;
}

void ct_zip_clear(ct_zip_t *z)
{
  for (int64_t i = 0; i < z->n; i++)
    ct_mem_free(z->record[i].name);
  ct_mem_free(z->record);
  *z = (ct_zip_t){0};
}

ct_zip_record_t *ct_zip_find(const ct_zip_t *z, const char *name)
{
  ct_zip_record_t key = {.name = (char *)name};
  return z->n ? bsearch(&key, z->record, (size_t)z->n, sizeof key, zip_by_name) : NULL;
}
