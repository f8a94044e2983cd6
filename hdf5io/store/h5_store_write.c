/* Writing checkpoints: to a temporary file, which is sealed (h5_seal.h), synced and renamed.
 *
 * Equal arrays give equal bytes (no timestamps are stored), so that runs can be compared by their
 * files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_temporary.h"
#include "base/ct_text.h"
#include "hdf5io/store/h5_seal.h"
#include "hdf5io/store/h5_store.h"

void ct__h5_store_discard(ct_store_t *s)
{
  if (!s) return;
  if (s->temporary) ct__h5_abandon(s->temporary, s->file);
  if (s->temporary) ct_temporary_end(s->temporary);
  ct__h5_store_free(s);
}

int ct__h5_store_create(const char *path, ct_store_t **out)
{
  int rc = CT_OK;
  char temporary[CT_PATH_MAX], format[64];
  ct_store_t *s = NULL;
  *out = NULL;
  CT_TRY(ct_fault("store.create"));
  CT_TRY(ct__h5_store_new(path, &s));
  CT_TRY(ct_text_format(temporary, sizeof temporary, "%s.tmp", path));
  s->temporary = ct_mem_strdup(temporary);
  if (!s->temporary) CT_TRY(CT_ERR_NOMEM);
  ct_temporary_begin(s->temporary);
  CT_TRY(ct__h5_create(s->temporary, 1, &s->file));
  snprintf(format, sizeof format, "%s %d", CT__H5_STORE_KIND, CT__H5_STORE_NUMBER);
  ct__h5_lock();
  if (!ct__h5_put_attr_text(s->file, "format", format))
    rc = ct__h5_store_failed(temporary, "format", "write");
  ct__h5_unlock();
  CT_TRY(rc);
  *out = s;
  s = NULL;
out:
  ct__h5_store_discard(s);
  return rc;
}

static int check_name(const ct_store_t *s, const char *name)
{
  int rc = CT_OK;
  size_t len = strlen(name);
  if (name[0] != '/' || len < 2 || name[len - 1] == '/' || strchr(name, '\n') ||
      strstr(name, "//") || strcmp(name, CT__H5_STORE_MANIFEST) == 0)
    CT_FAIL(CT_ERR_ARG, "%s: '%s' is not a valid item name: expected /group/name", s->path, name);
out:
  return rc;
}

/* Needs the lock. Creates an array with its checksum as an attribute; -1: failed. */
static hid_t create_array(const ct_store_t *s, const char *name, hid_t type, hid_t space,
                          uint64_t hash)
{
  char text[24];
  hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_char_encoding(links, H5T_CSET_UTF8);
  ct__h5_create_groups(s->file, name);
  H5Pset_obj_track_times(creation, 0); /* equal state gives equal bytes */
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  hid_t array = H5Dcreate2(s->file, name, type, space, links, creation, H5P_DEFAULT);
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  if (array >= 0 && !ct__h5_put_attr_text(array, "xxh3", text)) {
    ct__h5_drop(array);
    array = -1;
  }
  ct__h5_drop(creation);
  ct__h5_drop(links);
  return array;
}

/* Needs the lock. Creates a numeric array. */
static hid_t create_plain(const ct_store_t *s, const char *name, const ct_shape_t *shape,
                          uint64_t hash)
{
  hsize_t dims[CT_MAX_DIMS];
  for (int i = 0; i < shape->ndim; i++)
    dims[i] = (hsize_t)shape->dim[i];
  hid_t type = ct__h5_type_stored(shape->dtype);
  hid_t space = shape->ndim > 0 ? H5Screate_simple(shape->ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t array = create_array(s, name, type, space, hash);
  ct__h5_drop(space);
  ct__h5_drop(type);
  return array;
}

static int write_array(const ct_store_t *s, const char *name, const ct_shape_t *shape,
                       uint64_t hash, const char *data)
{
  int rc = CT_OK;
  size_t row;
  int64_t rows = ct__h5_store_rows(shape, &row), step = ct__h5_store_step(shape);
  ct__h5_lock();
  hid_t array = create_plain(s, name, shape, hash);
  if (array < 0) rc = ct__h5_store_failed(s->temporary, name, "write");
  ct__h5_unlock();
  for (int64_t first = 0; rc == CT_OK && row > 0 && first < rows; first += step) {
    int64_t n = rows - first < step ? rows - first : step;
    ct__h5_lock();
    if (!ct__h5_write_rows(array, shape->dtype, first, n, data + (size_t)first * row))
      rc = ct__h5_store_failed(s->temporary, name, "write");
    ct__h5_unlock();
  }
  ct__h5_lock();
  /* HDF5 may delay small writes until now */
  if (array >= 0 && H5Dclose(array) < 0 && rc == CT_OK)
    rc = ct__h5_store_failed(s->temporary, name, "write");
  ct__h5_unlock();
  return rc;
}

int ct__h5_store_put(ct_store_t *s, const char *name, const ct_shape_t *shape, const void *data)
{
  int rc = CT_OK;
  ct__h5_item_t *item;
  CT_TRY(check_name(s, name));
  CT_TRY(ct_fault("store.put"));
  size_t bytes = (size_t)ct_shape_count(shape) * ct_dtype_size(shape->dtype);
  uint64_t hash = ct_hash(data, bytes, 0);
  CT_TRY(write_array(s, name, shape, hash, data));
  CT_TRY(ct__h5_store_add(s, name, 0, hash, &item));
  item->shape = *shape;
out:
  s->broken |= rc != CT_OK;
  return rc;
}

static int write_text(const ct_store_t *s, const char *name, const char *text, uint64_t hash)
{
  int rc = CT_OK;
  ct__h5_lock();
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), array = -1;
  H5Tset_size(type, strlen(text) + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  array = create_array(s, name, type, space, hash);
  if (array < 0 || H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
    CT_TRY(ct__h5_store_failed(s->temporary, name, "write"));
out:
  if (array >= 0 && H5Dclose(array) < 0 && rc == CT_OK)
    rc = ct__h5_store_failed(s->temporary, name, "write");
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_unlock();
  return rc;
}

int ct__h5_store_put_text(ct_store_t *s, const char *name, const char *text)
{
  int rc = CT_OK;
  ct__h5_item_t *item;
  CT_TRY(check_name(s, name));
  CT_TRY(ct_fault("store.put"));
  uint64_t hash = ct_hash(text, strlen(text), 0);
  CT_TRY(write_text(s, name, text, hash));
  CT_TRY(ct__h5_store_add(s, name, 1, hash, &item));
  item->bytes = strlen(text) + 1;
out:
  s->broken |= rc != CT_OK;
  return rc;
}

/* One line per item: "array|text checksum name". */
static int write_manifest(const ct_store_t *s)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_str_add(&text, "%s", ""));
  for (int i = 0; i < s->nitems; i++)
    CT_TRY(ct_str_add(&text, "%s %016" PRIx64 " %s\n", s->items[i].is_text ? "text" : "array",
                      s->items[i].hash, s->items[i].name));
  CT_TRY(write_text(s, CT__H5_STORE_MANIFEST, text.data, ct_hash(text.data, text.len, 0)));
out:
  ct_str_clear(&text);
  return rc;
}

int ct__h5_store_commit(ct_store_t *s)
{
  int rc = CT_OK;
  CT_TRY(ct_fault("store.commit"));
  if (s->broken) CT_FAIL(CT_ERR_IO, "%s: not written, because one of its items failed", s->path);
  CT_TRY(write_manifest(s));
  hid_t file = s->file;
  s->file = -1;
  CT_TRY(ct__h5_finish(s->temporary, file));
  CT_TRY(ct__h5_seal_write(s->temporary));
  CT_TRY(ct_file_commit(s->temporary, s->path));
out:
  if (rc != CT_OK && s->file < 0) {
    ct_file_remove(s->temporary);
    ct_temporary_end(s->temporary);
  }
  ct__h5_store_discard(s);
  return rc;
}
