/* Short arrays of numbers of any HDF5 file, such as the mean of each channel. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"

enum { MOST = 1 << 20 /* numbers of an array */ };

/* An array, or an attribute of it; -1: there is none. */
typedef struct numbers {
  hid_t file, array, attr;
} numbers_t;

static int numbers_open(numbers_t *x, const char *path, const char *array, const char *attr)
{
  int rc = CT_OK;
  char part[CT_PATH_MAX];
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct__h5_open(path, &x->file));
  for (size_t i = 1; array[i - 1]; i++) { /* each group on the way must exist */
    if (array[i] && array[i] != '/') continue;
    CT_TRY(ct_text_format(part, sizeof part, "%.*s", (int)i, array));
    if (H5Lexists(x->file, part, H5P_DEFAULT) <= 0) goto out;
  }
  x->array = H5Dopen2(x->file, array, H5P_DEFAULT);
  if (attr && x->array >= 0 && ct__h5_has_attr(x->array, attr))
    x->attr = H5Aopen(x->array, attr, H5P_DEFAULT);
out:
  return rc;
}

int ct_h5_numbers(const char *path, const char *array, const char *attr, double **out, int *n)
{
  int rc = CT_OK;
  char text[40];
  numbers_t x = {-1, -1, -1};
  hid_t type = -1, space = -1;
  *out = NULL;
  *n = 0;
  ct__h5_lock();
  CT_TRY(numbers_open(&x, path, array, attr));
  if ((attr ? x.attr : x.array) < 0) goto out;
  type = attr ? H5Aget_type(x.attr) : H5Dget_type(x.array);
  space = attr ? H5Aget_space(x.attr) : H5Dget_space(x.array);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  H5T_class_t class = H5Tget_class(type);
  if ((class != H5T_FLOAT && class != H5T_INTEGER) || count < 1 || count > MOST)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s%s%s' is %lld of type %s, expected 1 to %d numbers", path, array,
            attr ? "', attribute '" : "", attr ? attr : "", (long long)count,
            ct__h5_type_text(type, text, sizeof text), MOST);
  *out = ct_mem_array(count, sizeof **out, "numbers of a file");
  if (!*out) CT_TRY(CT_ERR_NOMEM);
  int read = attr ? H5Aread(x.attr, H5T_NATIVE_DOUBLE, *out) >= 0
                  : H5Dread(x.array, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) >= 0;
  if (!read) CT_FAIL(CT_ERR_IO, "%s: array '%s' cannot be read", path, array);
  *n = (int)count;
out:
  if (rc != CT_OK) {
    ct_mem_free(*out);
    *out = NULL;
  }
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(x.attr);
  ct__h5_drop(x.array);
  ct__h5_drop(x.file);
  ct__h5_unlock();
  return rc;
}

static int numbers_write(hid_t file, const ct_h5_numbers_t *x)
{
  hsize_t n = (hsize_t)x->n;
  hid_t space = H5Screate_simple(1, &n, NULL), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  hid_t array = H5Dcreate2(file, x->name, H5T_IEEE_F64LE, space, links, H5P_DEFAULT, H5P_DEFAULT);
  int ok = array >= 0 &&
           H5Dwrite(array, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x->v) >= 0 &&
           H5Dclose(array) >= 0;
  ct__h5_drop(links);
  ct__h5_drop(space);
  return ok;
}

int ct_h5_bytes(const char *path, const char *array, char **out, size_t *n)
{
  int rc = CT_OK;
  char text[40];
  numbers_t x = {-1, -1, -1};
  hid_t type = -1, space = -1;
  *out = NULL;
  *n = 0;
  ct__h5_lock();
  CT_TRY(numbers_open(&x, path, array, NULL));
  if (x.array < 0) goto out;
  type = H5Dget_type(x.array);
  space = H5Dget_space(x.array);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  if (H5Tget_class(type) != H5T_INTEGER || H5Tget_size(type) != 1 || count < 1 ||
      H5Sget_simple_extent_ndims(space) != 1)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is %lld of type %s, expected bytes along one dim", path, array,
            (long long)count, ct__h5_type_text(type, text, sizeof text));
  *out = ct_mem_alloc((size_t)count, "bytes of a file");
  if (!*out) CT_TRY(CT_ERR_NOMEM);
  if (H5Dread(x.array, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) < 0)
    CT_FAIL(CT_ERR_IO, "%s: array '%s' cannot be read", path, array);
  *n = (size_t)count;
out:
  if (rc != CT_OK) {
    ct_mem_free(*out);
    *out = NULL;
  }
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(x.array);
  ct__h5_drop(x.file);
  ct__h5_unlock();
  return rc;
}

int ct_h5_numbers_write(const char *path, const ct_h5_numbers_t list[], int n)
{
  int rc = CT_OK, ok = 1;
  char part[CT_PATH_MAX];
  hid_t file = -1;
  CT_TRY(ct_text_format(part, sizeof part, "%s.part", path));
  CT_TRY(ct__h5_create(part, 0, &file));
  ct__h5_lock();
  for (int i = 0; i < n && ok; i++)
    ok = numbers_write(file, &list[i]);
  ct__h5_unlock();
  if (!ok) CT_FAIL(CT_ERR_IO, "%s: cannot be written", part);
  hid_t written = file;
  file = -1;
  CT_TRY(ct__h5_finish(part, written));
  CT_TRY(ct_file_commit(part, path));
out:
  ct__h5_abandon(part, file);
  return rc;
}
