/* Whole files for `pack`, decompressed if they are gzip, and the order in which their rows go
 * out. */
#include <inttypes.h>
#include <libdeflate.h>
#include <string.h>

#include "app/pack.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

/* One member of a gzip file behind what is there already; *used tells its compressed bytes. */
static int unpack_member(const char *path, const char *from, size_t bytes, char **to, int64_t *cap,
                         size_t *len, size_t *used)
{
  int rc = CT_OK;
  struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
  if (!d) CT_FAIL(CT_ERR_NOMEM, "%s: no memory to decompress it", path);
  for (int64_t guess = 4 * (int64_t)bytes + 64;; guess *= 2) {
    size_t n = 0;
    CT_TRY(ct_mem_grow((void **)to, cap, (int64_t)*len + guess + 1, 1));
    enum libdeflate_result result = libdeflate_gzip_decompress_ex(
        d, from, bytes, *to + *len, (size_t)*cap - *len - 1, used, &n);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) continue;
    if (result != LIBDEFLATE_SUCCESS) CT_FAIL(CT_ERR_FORMAT, "%s: its gzip data is damaged", path);
    *len += n;
    break;
  }
out:
  libdeflate_free_decompressor(d);
  return rc;
}

static int is_gzip(const char *data, size_t bytes)
{
  return bytes > 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

int ct_pack_read_file(const char *path, char **data, size_t *bytes)
{
  int rc = CT_OK;
  char *packed = NULL, *plain = NULL;
  int64_t cap = 0;
  size_t packed_bytes, len = 0;
  *data = NULL;
  CT_TRY(ct_file_read(path, &packed, &packed_bytes));
  if (!is_gzip(packed, packed_bytes)) {
    *data = packed;
    *bytes = packed_bytes;
    return CT_OK;
  }
  for (size_t at = 0, used; at < packed_bytes; at += used)
    CT_TRY(unpack_member(path, packed + at, packed_bytes - at, &plain, &cap, &len, &used));
  plain[len] = '\0';
  *data = plain;
  *bytes = len;
  plain = NULL;
out:
  ct_mem_free(packed);
  ct_mem_free(plain);
  return rc;
}

int ct_pack_walk_begin(ct_pack_walk_t *w, const char *path, int64_t have,
                       const ct_pack_rows_t *rows)
{
  int rc = CT_OK;
  *w = (ct_pack_walk_t){
      .order = {.seed = rows->seed, .samples = have, .batch = 1, .shuffle = rows->shuffle},
      .at = rows->first,
      .end = rows->last < have ? rows->last : have};
  if (have == 0) CT_FAIL(CT_ERR_FORMAT, "%s: there is no sample in it", path);
  if (w->at >= w->end)
    CT_FAIL(CT_ERR_USAGE,
            "%s: has %" PRId64 " rows, and none of them lies in the range that begins at %" PRId64,
            path, have, rows->first);
out:
  return rc;
}

int64_t ct_pack_walk_next(ct_pack_walk_t *w)
{
  return ct_sampler_at(&w->order, 0, w->at++);
}
