/* Lists the arrays of any HDF5 file, for `inspect`: data sets, and files of other programs.
 *
 * Arrays are read in blocks of whole chunks, the last of which is buffered, so that sequential
 * reading in small parts decodes each chunk once. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/store/h5_seal.h"
#include "hdf5io/store/h5_store.h"

enum { BLOCK_BYTES = 4 << 20 };

typedef struct array {
  char *name; /* owned */
  ct_elem_t type;
  int ndim;
  int64_t dim[H5S_MAX_RANK], count;
  int64_t step; /* rows per block */
} array_t;

struct ct_weights {
  char *path;
  hid_t file;
  array_t *array;
  int n;
  int64_t cap;
  int others; /* number of non-numeric arrays */
  ct_str_t remark;
  char *block; /* buffered rows `first` to `end` - 1 of array `kept` */
  int kept;
  int64_t first, end;
  int failed; /* CT_ERR_NOMEM while listing the file */
};

/* ---- types ---- */

/* Integer types that only files have. */
static const struct {
  ct_elem_t type;
  size_t bytes;
} more[] = {{CT_ELEM_U16, 2}, {CT_ELEM_U32, 4}, {CT_ELEM_U64, 8}};
enum { MORE = sizeof more / sizeof *more };

static int find_type(hid_t type, ct_elem_t *out)
{
  ct_dtype_t own;
  if (ct__h5_type_find(type, &own)) {
    *out = ct_elem_of_dtype(own);
    return 1;
  }
  for (int i = 0; i < MORE; i++)
    if (H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE &&
        H5Tget_size(type) == more[i].bytes) {
      *out = more[i].type;
      return 1;
    }
  return 0;
}

/* Returns the type in memory; close it with ct__h5_drop(). */
static hid_t memory_type(ct_elem_t e)
{
  ct_dtype_t own;
  if (ct_elem_dtype(e, &own)) return ct__h5_type_native(own);
  hid_t type = H5Tcopy(H5T_NATIVE_UINT64);
  H5Tset_size(type, (size_t)ct_elem_bits(e) / 8);
  return type;
}

/* ---- opening ---- */

/* Returns the number of rows per read: some chunks, or some rows of an array without chunks. */
static int64_t block_rows(hid_t array, const array_t *a)
{
  hsize_t chunk[H5S_MAX_RANK] = {1};
  hid_t p = H5Dget_create_plist(array);
  int64_t unit = 1, rows = a->ndim > 0 && a->dim[0] > 0 ? a->dim[0] : 1;
  if (H5Pget_layout(p) == H5D_CHUNKED && H5Pget_chunk(p, H5S_MAX_RANK, chunk) > 0)
    unit = (int64_t)chunk[0];
  ct__h5_drop(p);
  int64_t row = a->count / rows * (ct_elem_bits(a->type) / 8), n = BLOCK_BYTES / (row ? row : 1);
  return n > unit ? n / unit * unit : unit;
}

/* Adds an open array to the list. 0: out of memory. */
static int add_array(ct_weights_t *w, const char *name, hid_t array)
{
  hsize_t dim[H5S_MAX_RANK];
  array_t a = {.count = 1};
  char words[60];
  hid_t type = H5Dget_type(array), space = H5Dget_space(array);
  int known = find_type(type, &a.type), rc = CT_OK;
  if (known && H5Sget_simple_extent_type(space) != H5S_NULL) {
    a.ndim = H5Sget_simple_extent_dims(space, dim, NULL);
    for (int i = 0; i < a.ndim; i++)
      a.count *= a.dim[i] = (int64_t)dim[i];
    a.step = block_rows(array, &a);
    a.name = ct_mem_strdup(name);
    rc = a.name ? ct_mem_grow((void **)&w->array, &w->cap, w->n + 1, sizeof a) : CT_ERR_NOMEM;
    if (rc == CT_OK) w->array[w->n++] = a;
  } else if (w->others++ < 3) {
    rc = ct_str_add(&w->remark, "%s'%s' is %s", w->remark.len ? ", " : "not shown: ", name,
                    known ? "empty" : ct__h5_type_text(type, words, sizeof words));
  }
  ct__h5_drop(space);
  ct__h5_drop(type);
  return rc == CT_OK;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
  ct_weights_t *w = data;
  hid_t object = H5Oopen(group, name, H5P_DEFAULT);
  (void)info;
  ct_heartbeat_progress();
  if (object >= 0 && H5Iget_type(object) == H5I_DATASET && !add_array(w, name, object))
    w->failed = CT_ERR_NOMEM;
  ct__h5_drop(object);
  return w->failed ? -1 : 0;
}

static void close_file(ct_weights_t *w)
{
  if (!w) return;
  ct__h5_lock();
  ct__h5_drop(w->file);
  ct__h5_unlock();
  for (int i = 0; i < w->n; i++)
    ct_mem_free(w->array[i].name);
  ct_mem_free(w->array);
  ct_mem_free(w->path);
  ct_mem_free(w->block);
  ct_str_clear(&w->remark);
  ct_mem_free(w);
}

/* Needs the lock. Describes the tokens of a shard, with the attributes of FORMAT.md. */
static int tell_tokens(ct_weights_t *w)
{
  int rc = CT_OK;
  char name[64] = "";
  int64_t vocab, eot, bytes;
  hid_t tokens =
      H5Lexists(w->file, "tokens", H5P_DEFAULT) > 0 ? H5Dopen2(w->file, "tokens", H5P_DEFAULT) : -1;
  if (tokens < 0 || !ct__h5_attr_int(tokens, "vocab", &vocab)) goto out;
  ct__h5_attr_text(tokens, "tokenizer", name, sizeof name);
  CT_TRY(ct_str_add(&w->remark, "%stokens: vocabulary of %" PRId64 "%s%s%s",
                    w->remark.len ? "; " : "", vocab, *name ? " (" : "", name, *name ? ")" : ""));
  if (ct__h5_attr_int(tokens, "eot", &eot))
    CT_TRY(ct_str_add(&w->remark, ", end of text %" PRId64, eot));
  for (int i = 0; i < w->n; i++)
    if (strcmp(w->array[i].name, "document_starts") == 0)
      CT_TRY(ct_str_add(&w->remark, ", %" PRId64 " document%s", w->array[i].count,
                        w->array[i].count == 1 ? "" : "s"));
  if (ct__h5_attr_int(tokens, "bytes", &bytes))
    CT_TRY(ct_str_add(&w->remark, ", %" PRId64 " bytes of text", bytes));
out:
  ct__h5_drop(tokens);
  return rc;
}

static int list_arrays(ct_weights_t *w)
{
  int rc = CT_OK, is_checkpoint;
  char format[64] = "", why[200];
  ct__h5_lock();
  ct__h5_attr_text(w->file, "format", format, sizeof format);
  is_checkpoint = strncmp(format, CT__H5_STORE_KIND " ", sizeof CT__H5_STORE_KIND) == 0;
  if (!is_checkpoint && H5Lvisit(w->file, H5_INDEX_NAME, H5_ITER_INC, visit, w) < 0 && !w->failed) {
    ct__h5_why(why, sizeof why);
    w->failed =
        ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: cannot be listed: %s", w->path, why);
  }
  if (!w->failed && w->others > 3)
    w->failed = ct_str_add(&w->remark, " and %d more", w->others - 3);
  if (!is_checkpoint && !w->failed) w->failed = tell_tokens(w);
  ct__h5_unlock();
  if (is_checkpoint) {
    CT_TRY(ct__h5_seal_check(w->path)); /* reports that the seal is missing or damaged */
    CT_FAIL(CT_ERR_FORMAT, "%s: is a checkpoint", w->path);
  }
  CT_TRY(w->failed);
out:
  return rc;
}

static int open_file(const char *path, const char *key, ct_weights_t **out)
{
  int rc = CT_OK;
  ct_weights_t *w = ct_mem_alloc(sizeof *w, "an HDF5 file");
  *out = NULL;
  if (!w) return CT_ERR_NOMEM;
  w->file = -1;
  w->kept = -1;
  if (key && *key)
    CT_FAIL(CT_ERR_FORMAT, "%s: is not a checkpoint, so '%s' cannot be selected", path, key);
  w->path = ct_mem_strdup(path);
  CT_TRY(w->path ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_file_regular(path));
  ct__h5_lock();
  ct_heartbeat_file(path);
  rc = ct__h5_open(path, &w->file);
  ct_heartbeat_file(NULL);
  ct__h5_unlock();
  CT_TRY(rc);
  CT_TRY(list_arrays(w));
  *out = w;
  w = NULL;
out:
  close_file(w);
  return rc;
}

/* ---- content ---- */

static int count(const ct_weights_t *w)
{
  return w->n;
}

static void tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  const array_t *a = &w->array[i];
  *out = (ct_tensor_t){
      .name = a->name, .type = a->type, .ndim = a->ndim, .dim = a->dim, .count = a->count};
}

/* Needs the lock. Reads rows into the block. */
static int read_rows(const ct_weights_t *w, const array_t *a, int64_t first, int64_t rows)
{
  hsize_t start[H5S_MAX_RANK] = {(hsize_t)first}, n[H5S_MAX_RANK];
  for (int i = 0; i < a->ndim; i++)
    n[i] = (hsize_t)a->dim[i];
  n[0] = (hsize_t)rows;
  hid_t array = H5Dopen2(w->file, a->name, H5P_DEFAULT), type = memory_type(a->type),
        space = H5Dget_space(array), memory = H5S_ALL;
  int ok = array >= 0;
  if (a->ndim > 0) {
    memory = H5Screate_simple(a->ndim, n, NULL);
    ok = ok && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, n, NULL) >= 0;
  }
  ok =
      ok && H5Dread(array, type, memory, a->ndim > 0 ? space : H5S_ALL, H5P_DEFAULT, w->block) >= 0;
  if (a->ndim > 0) ct__h5_drop(memory);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(array);
  return ok;
}

/* Loads the block that contains a row. */
static int keep(ct_weights_t *w, int i, int64_t row, int64_t rows, int64_t row_bytes)
{
  int rc = CT_OK;
  const array_t *a = &w->array[i];
  if (w->kept == i && row >= w->first && row < w->end) return CT_OK;
  int64_t first = row / a->step * a->step, n = rows - first < a->step ? rows - first : a->step;
  ct_mem_free(w->block);
  w->kept = -1;
  w->block = ct_mem_array(n, (size_t)row_bytes, "rows of an array");
  CT_TRY(w->block ? CT_OK : CT_ERR_NOMEM);
  ct_heartbeat_file(w->path);
  ct__h5_lock();
  if (!read_rows(w, a, first, n)) rc = ct__h5_store_failed(w->path, a->name, "read");
  ct__h5_unlock();
  ct_heartbeat_file(NULL);
  CT_TRY(rc);
  w->kept = i;
  w->first = first;
  w->end = first + n;
out:
  return rc;
}

static int read_array(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  int rc = CT_OK;
  const array_t *a = &w->array[i];
  int64_t rows = a->ndim > 0 ? a->dim[0] : 1, size = ct_elem_bits(a->type) / 8;
  if (a->count == 0) return CT_OK;
  int64_t row = a->count / rows;
  for (int64_t done = 0, part; done < n; done += part) {
    int64_t at = first + done;
    CT_TRY(keep(w, i, at / row, rows, row * size));
    part = w->end * row - at;
    if (part > n - done) part = n - done;
    memcpy((char *)to + done * size, w->block + (at - w->first * row) * size,
           (size_t)(part * size));
  }
out:
  return rc;
}

static const char *text_of(const ct_weights_t *w, const char *name)
{
  (void)w;
  (void)name;
  return NULL;
}

static const char *remark(const ct_weights_t *w)
{
  return w->remark.data;
}

const ct_weights_ops_t ct_weights_any_hdf5 = {
    .format = CT__H5_FORMAT,
    .open = open_file,
    .count = count,
    .tensor = tensor,
    .read = read_array,
    .text = text_of,
    .remark = remark,
    .close = close_file,
};
