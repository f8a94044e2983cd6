/* Reading checkpoints, and the container's table of operations.
 *
 * A file is opened only if its seal is valid, and each item is checked against its hash in the
 * manifest when it is read, so that training never resumes from damaged data. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/store/h5_seal.h"
#include "hdf5io/store/h5_store.h"

/* ---- opening ---- */

static void store_close(ct_store_t *s)
{
  if (!s) return;
  ct__h5_lock();
  ct__h5_drop(s->file);
  ct__h5_unlock();
  ct__h5_store_free(s);
}

/* Needs the lock. Gets the shape of an array or the size of a text. */
static int describe_item(const ct_store_t *s, ct__h5_item_t *item)
{
  int rc = CT_OK;
  hsize_t dims[H5S_MAX_RANK] = {0};
  hid_t array = H5Dopen2(s->file, item->name, H5P_DEFAULT), type = -1, space = -1;
  if (array < 0) CT_FAIL(CT_ERR_FORMAT, "%s: item '%s' is missing", s->path, item->name);
  type = H5Dget_type(array);
  space = H5Dget_space(array);
  int ndim = H5Sget_simple_extent_ndims(space);
  if (item->is_text) {
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || ndim != 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: item '%s' is not one text", s->path, item->name);
    item->bytes = H5Tget_size(type);
    goto out;
  }
  if (!ct__h5_type_find(type, &item->shape.dtype) || ndim < 0 || ndim > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_FORMAT, "%s: item '%s' is not an array of numbers with up to %d dims", s->path,
            item->name, CT_MAX_DIMS);
  H5Sget_simple_extent_dims(space, dims, NULL);
  item->shape.ndim = ndim;
  item->shape.layout = CT_PLAIN;
  for (int i = 0; i < CT_MAX_DIMS; i++)
    item->shape.dim[i] = i < ndim ? (int64_t)dims[i] : 1;
out:
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(array);
  return rc;
}

static int store_read_text(ct_store_t *s, const ct__h5_item_t *item, char **out)
{
  int rc = CT_OK;
  hid_t array = -1, type = -1;
  char *text = ct_mem_alloc(item->bytes + 1, "a text of a checkpoint");
  *out = NULL;
  if (!text) return CT_ERR_NOMEM;
  ct__h5_lock();
  array = H5Dopen2(s->file, item->name, H5P_DEFAULT);
  type = H5Dget_type(array);
  if (H5Dread(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
    rc = ct__h5_store_failed(s->path, item->name, "read");
  ct__h5_drop(type);
  ct__h5_drop(array);
  ct__h5_unlock();
  CT_TRY(rc);
  *out = text;
  text = NULL;
out:
  ct_mem_free(text);
  return rc;
}

static int check_hash(const ct_store_t *s, const ct__h5_item_t *item, const void *data,
                      size_t bytes)
{
  ct_heartbeat_progress();
  if (ct_hash(data, bytes, 0) == item->hash) return CT_OK;
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s: item '%s' is damaged: its checksum differs", s->path, item->name);
}

/* Parses a line "array|text checksum name"; 1 on success. */
static int parse_line(const char *line, int *is_text, uint64_t *hash, const char **name)
{
  char *rest;
  *is_text = strncmp(line, "text ", 5) == 0;
  const char *digits = line + (*is_text ? 5 : 6);
  if (!*is_text && strncmp(line, "array ", 6) != 0) return 0;
  *hash = strtoull(digits, &rest, 16);
  *name = rest + 1;
  return rest == digits + 16 && rest[0] == ' ' && rest[1] == '/';
}

static int take_line(ct_store_t *s, const char *line)
{
  int rc = CT_OK, is_text;
  uint64_t hash;
  const char *name;
  ct__h5_item_t *item;
  if (!parse_line(line, &is_text, &hash, &name))
    CT_FAIL(CT_ERR_FORMAT, "%s: malformed line in the manifest: '%.80s'", s->path, line);
  CT_TRY(ct__h5_store_add(s, name, is_text, hash, &item));
  ct__h5_lock();
  rc = describe_item(s, item);
  ct__h5_unlock();
out:
  return rc;
}

static int read_manifest(ct_store_t *s)
{
  int rc = CT_OK;
  ct__h5_item_t manifest = {.name = (char[]){CT__H5_STORE_MANIFEST}, .is_text = 1};
  char *text = NULL;
  ct__h5_lock();
  rc = describe_item(s, &manifest);
  ct__h5_unlock();
  CT_TRY(rc);
  CT_TRY(store_read_text(s, &manifest, &text));
  for (char *line = text, *end; *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end) *end++ = '\0';
    CT_TRY(take_line(s, line));
  }
out:
  ct_mem_free(text);
  return rc;
}

/* Needs the lock. Finds which program wrote a file of a possibly newer format: the first part of
 * its version text, if that is still stored in the same place. */
static void find_maker(const ct_store_t *s, char *buf, size_t cap)
{
  hid_t array = -1, type = -1;
  *buf = '\0';
  if (H5Lexists(s->file, "/meta", H5P_DEFAULT) <= 0 ||
      H5Lexists(s->file, "/meta/versions", H5P_DEFAULT) <= 0)
    return;
  array = H5Dopen2(s->file, "/meta/versions", H5P_DEFAULT);
  type = array < 0 ? -1 : H5Dget_type(array);
  size_t bytes = type < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0
                     ? 0
                     : H5Tget_size(type);
  char *text = bytes ? ct_mem_alloc(bytes + 1, "a text of a checkpoint") : NULL;
  if (text && H5Dread(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0)
    snprintf(buf, cap, "%.*s", (int)strcspn(text, ";"), text);
  ct_mem_free(text);
  ct__h5_drop(type);
  ct__h5_drop(array);
}

static int store_open(const char *path, ct_store_t **out)
{
  int rc = CT_OK;
  char format[64] = "", by[64] = "";
  ct_store_t *s = NULL;
  *out = NULL;
  CT_TRY(ct__h5_seal_check(path));
  CT_TRY(ct__h5_store_new(path, &s));
  ct__h5_lock();
  ct_heartbeat_file(path);
  rc = ct__h5_open(path, &s->file);
  if (rc == CT_OK) ct__h5_attr_text(s->file, "format", format, sizeof format);
  if (rc == CT_OK) find_maker(s, by, sizeof by);
  ct__h5_unlock();
  CT_TRY(rc);
  CT_TRY(ct_format_number(path, format, CT__H5_STORE_KIND, CT__H5_STORE_NUMBER, by));
  CT_TRY(read_manifest(s));
  *out = s;
  s = NULL;
out:
  store_close(s);
  return rc;
}

/* ---- content ---- */

static int store_count(const ct_store_t *s)
{
  int n = 0;
  for (int i = 0; i < s->nitems; i++)
    n += !s->items[i].is_text;
  return n;
}

static const char *store_item(const ct_store_t *s, int i, ct_shape_t *shape)
{
  for (int k = 0; k < s->nitems; k++) {
    const ct__h5_item_t *item = &s->items[k];
    if (item->is_text || i-- > 0) continue;
    *shape = item->shape;
    return item->name;
  }
  return NULL;
}

static const ct__h5_item_t *find_item(const ct_store_t *s, const char *name, int is_text)
{
  for (int i = 0; i < s->nitems; i++)
    if (s->items[i].is_text == is_text && strcmp(s->items[i].name, name) == 0) return &s->items[i];
  ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: %s '%s' not found", s->path,
             is_text ? "text" : "array", name);
  return NULL;
}

static int store_find(const ct_store_t *s, const char *name, ct_shape_t *shape)
{
  const ct__h5_item_t *item = find_item(s, name, 0);
  if (!item) return CT_ERR_FORMAT;
  *shape = item->shape;
  return CT_OK;
}

static int read_array(ct_store_t *s, const ct__h5_item_t *item, char *data)
{
  int rc = CT_OK;
  size_t row;
  int64_t rows = ct__h5_store_rows(&item->shape, &row), step = ct__h5_store_step(&item->shape);
  ct__h5_lock();
  hid_t array = H5Dopen2(s->file, item->name, H5P_DEFAULT);
  ct__h5_unlock();
  for (int64_t first = 0; rc == CT_OK && row > 0 && first < rows; first += step) {
    int64_t n = rows - first < step ? rows - first : step;
    ct__h5_lock();
    if (!ct__h5_read_rows(array, item->shape.dtype, first, n, data + (size_t)first * row))
      rc = ct__h5_store_failed(s->path, item->name, "read");
    ct__h5_unlock();
  }
  ct__h5_lock();
  ct__h5_drop(array);
  ct__h5_unlock();
  return rc;
}

static int store_get(ct_store_t *s, const char *name, const ct_shape_t *shape, void *data)
{
  int rc = CT_OK;
  char is[64], wanted[64];
  const ct__h5_item_t *item = find_item(s, name, 0);
  if (!item) return CT_ERR_FORMAT;
  if (shape->dtype != item->shape.dtype || !ct_shape_same(shape, &item->shape))
    CT_FAIL(CT_ERR_SHAPE, "%s: item '%s' is %s %s, expected %s %s", s->path, name,
            ct_dtype_name(item->shape.dtype), ct_shape_text(&item->shape, is, sizeof is),
            ct_dtype_name(shape->dtype), ct_shape_text(shape, wanted, sizeof wanted));
  CT_TRY(read_array(s, item, data));
  size_t bytes = (size_t)ct_shape_count(&item->shape) * ct_dtype_size(item->shape.dtype);
  CT_TRY(check_hash(s, item, data, bytes));
out:
  return rc;
}

static int store_get_text(ct_store_t *s, const char *name, char **out)
{
  int rc = CT_OK;
  const ct__h5_item_t *item = find_item(s, name, 1);
  *out = NULL;
  if (!item) return CT_ERR_FORMAT;
  CT_TRY(store_read_text(s, item, out));
  rc = check_hash(s, item, *out, strlen(*out));
  if (rc != CT_OK) {
    ct_mem_free(*out);
    *out = NULL;
  }
out:
  return rc;
}

const ct_store_ops_t ct_store_hdf5 = {
    .format = CT__H5_FORMAT,
    .create = ct__h5_store_create,
    .put = ct__h5_store_put,
    .put_text = ct__h5_store_put_text,
    .commit = ct__h5_store_commit,
    .discard = ct__h5_store_discard,
    .open = store_open,
    .count = store_count,
    .item = store_item,
    .find = store_find,
    .get = store_get,
    .get_text = store_get_text,
    .close = store_close,
};
