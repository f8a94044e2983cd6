/* Reads whole files for `pack`, decompressing gzip, and identifies files. */
#include <libdeflate.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"

/* Appends one decompressed member of a gzip file; *used: its compressed size. */
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

uint64_t ct_pack_identity(const char *path, uint64_t seed)
{
  struct stat info;
  if (stat(path, &info) != 0) return ct_hash_text(path, seed);
  seed = ct_hash_text(path, seed);
  seed = ct_hash_int(info.st_size, seed);
  seed = ct_hash_int(info.st_mtim.tv_sec, seed);
  return ct_hash_int(info.st_mtim.tv_nsec, seed);
}
