/* Arrays of npy and npz files: opens them, checks them against the size of their file, reads them
 * row by row. */
#include "pack/array.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/ct_pack_in.h"
#include "weights/pth/ct_zip.h"

enum { HEAD = 65536 + 16 /* bytes that are enough for any header */ };

static size_t elem_bytes(const ct__pack_array_t *a)
{
  return (size_t)ct_elem_bits(a->type) / 8;
}

/* Reads the header at offset `at`; the array has `bytes` bytes from there. */
static int array_read_header(ct__pack_array_t *a, int64_t bytes)
{
  int rc = CT_OK;
  size_t used, n = bytes < HEAD ? (size_t)bytes : HEAD;
  char *head = NULL;
  if (!a->data) {
    head = ct_mem_alloc(n + 1, "the header of an array");
    if (!head) CT_TRY(CT_ERR_NOMEM);
    CT_TRY(ct_file_read_at(a->fd, a->path, a->at, head, n));
  }
  CT_TRY(ct__pack_npy_header(head ? head : a->data, n, a, &used));
  double elements = (double)a->dim[0];
  a->row = 1;
  for (int i = 1; i < a->ndim; i++) {
    elements *= (double)a->dim[i];
    a->row = a->dim[i] && a->row > INT64_MAX / 8 / a->dim[i] ? 0 : a->row * a->dim[i];
  }
  if (elements * (double)elem_bytes(a) != (double)(bytes - (int64_t)used))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: its header says %.0f elements of %s, but there are %" PRId64 " bytes", a->path,
            elements, ct_elem_name(a->type), bytes - (int64_t)used);
  if (elements == 0) CT_FAIL(CT_ERR_FORMAT, "%s: contains no samples", a->path);
  a->at += (int64_t)used;
out:
  ct_mem_free(head);
  return rc;
}

/* ---- npz ---- */

/* Decompresses a record of a zip file into memory. */
static int inflate_record(ct__pack_array_t *a, const ct_zip_record_t *r)
{
  int rc = CT_OK;
  char *packed = NULL;
  struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
  if (!d) CT_FAIL(CT_ERR_NOMEM, "%s: no memory to decompress it", a->path);
  if (r->plain / 1040 > r->bytes) /* deflate expands a byte to at most so many */
    CT_FAIL(CT_ERR_FORMAT, "%s: the size of record '%s' is not valid", a->path, r->name);
  packed = ct_mem_alloc((size_t)r->bytes + 1, "a compressed array");
  a->data = ct_mem_alloc((size_t)r->plain + 1, "an array");
  if (!packed || !a->data) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(a->fd, a->path, r->at, packed, (size_t)r->bytes));
  if (libdeflate_deflate_decompress(d, packed, (size_t)r->bytes, a->data, (size_t)r->plain, NULL) !=
          LIBDEFLATE_SUCCESS ||
      libdeflate_crc32(0, a->data, (size_t)r->plain) != r->crc)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is damaged", a->path, r->name);
out:
  libdeflate_free_decompressor(d);
  ct_mem_free(packed);
  return rc;
}

/* Finds the selected record. */
static int array_choose(const ct__pack_array_t *a, const ct_zip_t *z, const char *name,
                        const char *usual, const ct_zip_record_t **out)
{
  int rc = CT_OK;
  char file[300];
  ct_str_t list = {0};
  CT_TRY(ct_text_format(file, sizeof file, "%s.npy", *name ? name : usual));
  *out = ct_zip_find(z, file);
  if (!*out && !*name && z->n == 1) *out = &z->record[0];
  for (int64_t i = 0; i < z->n && i < 16 && !*out; i++)
    CT_TRY(ct_str_add(&list, "%s%.*s", i ? ", " : "", (int)strcspn(z->record[i].name, "."),
                      z->record[i].name));
  if (!*out)
    CT_FAIL(*name ? CT_ERR_FORMAT : CT_ERR_USAGE,
            "%s: array '%s' not found; the file contains %s: select one, as in FILE.npz:NAME",
            a->path, *name ? name : usual, list.data);
  if ((*out)->packed && !(*out)->deflated)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is encrypted, or compressed by other than deflate",
            a->path, file);
out:
  ct_str_clear(&list);
  return rc;
}

static int open_npz(ct__pack_array_t *a, int64_t bytes, const char *name, const char *usual)
{
  int rc = CT_OK;
  ct_zip_t z = {0};
  const ct_zip_record_t *r;
  CT_TRY(ct_zip_open(a->fd, a->path, bytes, &z));
  CT_TRY(array_choose(a, &z, name, usual, &r));
  if (r->packed)
    CT_TRY(inflate_record(a, r));
  else
    a->at = r->at;
  CT_TRY(array_read_header(a, r->packed ? r->plain : r->bytes));
out:
  ct_zip_clear(&z);
  return rc;
}

/* ---- opening ---- */

static int array_open_file(ct__pack_array_t *a, const char *path, const char *name,
                           const char *usual)
{
  int rc = CT_OK;
  struct stat st;
  unsigned char mark[4] = {0};
  size_t bytes;
  CT_TRY(ct_file_regular(path));
  a->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (a->fd < 0 || fstat(a->fd, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened", path);
  if (st.st_size >= 4) CT_TRY(ct_file_read_at(a->fd, path, 0, mark, sizeof mark));
  if (memcmp(mark, "PK\3\4", 4) == 0) {
    CT_TRY(open_npz(a, st.st_size, name, usual));
  } else if (mark[0] == 0x1f && mark[1] == 0x8b) {
    CT_TRY(ct_pack_read_file(path, &a->data, &bytes));
    CT_TRY(array_read_header(a, (int64_t)bytes));
  } else {
    CT_TRY(array_read_header(a, st.st_size));
  }
  a->buffer = ct_mem_array(a->row, elem_bytes(a), "a sample");
  if (!a->buffer) CT_TRY(CT_ERR_NOMEM);
  if (a->fortran) CT_TRY(ct__pack_array_load(a));
out:
  return rc;
}

int ct__pack_array_open(const char *path, const char *usual, ct__pack_array_t *out)
{
  char file[CT_PATH_MAX];
  const char *colon = strrchr(path, ':');
  *out = (ct__pack_array_t){.path = path, .fd = -1};
  if (!colon || ct_file_exists(path)) return array_open_file(out, path, "", usual);
  if (ct_text_format(file, sizeof file, "%.*s", (int)(colon - path), path) != CT_OK)
    return CT_ERR_USAGE;
  return array_open_file(out, file, colon + 1, usual);
}

void ct__pack_array_clear(ct__pack_array_t *a)
{
  if (a->fd >= 0) close(a->fd);
  ct_mem_free(a->data);
  ct_mem_free(a->buffer);
  *a = (ct__pack_array_t){.fd = -1};
}

int ct__pack_array_load(ct__pack_array_t *a)
{
  int rc = CT_OK;
  if (a->data) return CT_OK;
  size_t bytes = (size_t)(a->dim[0] * a->row) * elem_bytes(a);
  a->data = ct_mem_alloc(bytes, "an array");
  if (!a->data) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(a->fd, a->path, a->at, a->data, bytes));
  a->at = 0;
out:
  return rc;
}

/* ---- a row ---- */

ct_dtype_t ct__pack_array_dtype(const ct__pack_array_t *a)
{
  ct_dtype_t same = CT_F32;
  switch (a->type) {
  case CT_ELEM_BOOL:
    return CT_U8;
  case CT_ELEM_U16:
    return CT_I32;
  case CT_ELEM_U32:
  case CT_ELEM_U64:
    return CT_I64;
  default:
    ct_elem_dtype(a->type, &same);
    return same;
  }
}

int ct__pack_array_is_real(const ct__pack_array_t *a)
{
  return a->type == CT_ELEM_F16 || a->type == CT_ELEM_F32 || a->type == CT_ELEM_F64;
}

static void swap_bytes(char *p, size_t size)
{
  for (size_t i = 0; i < size / 2; i++) {
    char c = p[i];
    p[i] = p[size - 1 - i];
    p[size - 1 - i] = c;
  }
}

/* Copies a row into the buffer, little-endian, in C order or with the last dim first. */
static void array_gather(ct__pack_array_t *a, const char *from, int last_first)
{
  int64_t stride[CT_MAX_DIMS], at[CT_MAX_DIMS] = {0};
  int order[CT_MAX_DIMS], n = a->ndim - 1;
  size_t size = elem_bytes(a);
  for (int i = 0; i < n; i++)
    order[i] = last_first ? (i == 0 ? n : i) : i + 1;
  int64_t step = a->fortran ? a->dim[0] : 1;
  for (int i = 1; i <= n; i++) {
    int d = a->fortran ? i : n + 1 - i;
    stride[d] = step;
    step *= a->dim[d];
  }
  for (int64_t e = 0, place = 0; e < a->row; e++) {
    memcpy(a->buffer + (size_t)e * size, from + (size_t)place * size, size);
    for (int i = n - 1; i >= 0; i--) {
      int d = order[i];
      place += stride[d];
      if (++at[d] < a->dim[d]) break;
      place -= stride[d] * a->dim[d];
      at[d] = 0;
    }
  }
}

/* Training reads all real numbers as float32, so each must be finite as float32. */
static int check_finite(const ct__pack_array_t *a)
{
  enum { AT_ONCE = 256 };
  int rc = CT_OK;
  float value[AT_ONCE];
  double stored;
  for (int64_t first = 0; first < a->row; first += AT_ONCE) {
    int64_t n = a->row - first < AT_ONCE ? a->row - first : AT_ONCE;
    ct_elem_floats(a->type, a->buffer + (size_t)first * elem_bytes(a), n, value);
    for (int64_t i = 0; i < n; i++) {
      if (isfinite(value[i])) continue;
      stored = (double)value[i];
      if (a->type == CT_ELEM_F64) memcpy(&stored, a->buffer + 8 * (first + i), 8);
      if (isfinite(stored))
        CT_FAIL(CT_ERR_DATA, "number %" PRId64 " is %g, expected numbers that float32 can hold",
                first + i, stored);
      CT_FAIL(CT_ERR_DATA,
              "number %" PRId64
              " is %s, expected finite numbers (numpy.nan_to_num replaces others)",
              first + i, isnan(stored) ? "NaN" : "infinite");
    }
  }
out:
  return rc;
}

/* Converts numbers, which are in the byte order of the machine, to the array's ct_dtype_t.
 * CT_ERR_DATA */
static int array_convert(const ct__pack_array_t *a, void *to)
{
  int rc = CT_OK;
  const char *from = a->buffer;
  for (int64_t i = 0; i < a->row; i++) {
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    if (a->type == CT_ELEM_U16) {
      memcpy(&u16, from + 2 * i, 2);
      ((int32_t *)to)[i] = u16;
    } else if (a->type == CT_ELEM_U32) {
      memcpy(&u32, from + 4 * i, 4);
      ((int64_t *)to)[i] = u32;
    } else if (a->type == CT_ELEM_U64) {
      memcpy(&u64, from + 8 * i, 8);
      if (u64 > INT64_MAX) CT_FAIL(CT_ERR_DATA, "%" PRIu64 " does not fit into int64", u64);
      ((int64_t *)to)[i] = (int64_t)u64;
    } else {
      memcpy(to, from, (size_t)a->row * elem_bytes(a));
      break;
    }
  }
  if (ct__pack_array_is_real(a)) CT_TRY(check_finite(a));
out:
  return rc;
}

int ct__pack_array_row(ct__pack_array_t *a, int64_t index, int last_first, void *to)
{
  int rc = CT_OK;
  char *row = NULL;
  size_t size = elem_bytes(a), bytes = (size_t)a->row * size;
  const char *from = a->data ? a->data + a->at : NULL;
  if (a->data && a->fortran)
    from += (size_t)index * size;
  else if (a->data)
    from += (size_t)index * bytes;
  if (!a->data && last_first) {
    row = ct_mem_alloc(bytes, "a sample");
    if (!row) CT_TRY(CT_ERR_NOMEM);
  }
  if (!a->data)
    CT_TRY(ct_file_read_at(a->fd, a->path, a->at + index * (int64_t)bytes, row ? row : a->buffer,
                           bytes));
  if (a->data || row) array_gather(a, row ? row : from, last_first);
  for (int64_t i = 0; i < a->row && a->swapped && size > 1; i++)
    swap_bytes(a->buffer + (size_t)i * size, size);
  CT_TRY(array_convert(a, to));
out:
  ct_mem_free(row);
  return rc;
}
