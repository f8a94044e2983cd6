/* Writes predicted fields.  Coordinates are copied as netCDF-4 stores them: an array (a dimension
 * scale) for each dim, to which the attribute DIMENSION_LIST of a field refers. */
#include "hdf5io/ct_field_file.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_temporary.h"
#include "base/ct_text.h"
#include "hdf5io/h5_glue.h"

enum { ARRAYS = 32, SMALL_SAMPLE = 16 << 10, CHUNK_BYTES = 64 << 10, NAME_MOST = 256 };
#define CHUNK_MOST ((size_t)1 << 31) /* HDF5 allows less than 4 GiB */

/* One dim of the input array. */
typedef struct dim {
  hsize_t extent, chunk;
  char name[NAME_MOST]; /* "": none */
  hid_t scale;          /* its coordinates; -1: none */
} dim_t;

struct ct_field_file {
  char path[CT_PATH_MAX], temporary[CT_PATH_MAX];
  hid_t file, like;
  int dims; /* of the input array; 0: none */
  int channels_last;
  dim_t dim[CT_MAX_DIMS];
  int arrays;
  hid_t array[ARRAYS];
  ct_dtype_t dtype[ARRAYS];
};

static int failed(const ct_field_file_t *f, const char *name)
{
  char why[200];
  ct__h5_why(why, sizeof why);
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write '%s': %s", f->temporary, name,
                    why);
}

/* ---- the input array: these functions need the lock, and skip unusual attributes ---- */

static void read_labels(ct_field_file_t *f, hid_t array)
{
  char *text[CT_MAX_DIMS] = {NULL};
  if (!ct__h5_has_attr(array, "DIMENSION_LABELS")) return;
  hid_t attr = H5Aopen(array, "DIMENSION_LABELS", H5P_DEFAULT);
  hid_t type = H5Aget_type(attr), space = H5Aget_space(attr);
  if (H5Tis_variable_str(type) > 0 && H5Sget_simple_extent_npoints(space) == f->dims &&
      H5Aread(attr, type, text) >= 0) {
    for (int i = 0; i < f->dims; i++)
      ct_text_fit(f->dim[i].name, NAME_MOST, "%s", text[i] ? text[i] : "");
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, text);
  }
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(attr);
}

/* Opens the first coordinates of a dim; its name is that of the array without groups. */
static void take_scale(dim_t *d, hid_t array, const hvl_t *list)
{
  char name[NAME_MOST] = "";
  if (list->len < 1) return;
  d->scale = H5Rdereference2(array, H5P_DEFAULT, H5R_OBJECT, list->p);
  if (d->scale < 0 || H5Iget_name(d->scale, name, sizeof name) <= 0) return;
  const char *slash = strrchr(name, '/');
  if (!d->name[0]) ct_text_fit(d->name, NAME_MOST, "%s", slash ? slash + 1 : name);
}

static void read_scales(ct_field_file_t *f, hid_t array)
{
  hvl_t list[CT_MAX_DIMS] = {{0}};
  if (!ct__h5_has_attr(array, "DIMENSION_LIST")) return;
  hid_t attr = H5Aopen(array, "DIMENSION_LIST", H5P_DEFAULT);
  hid_t stored = H5Aget_type(attr), space = H5Aget_space(attr);
  hid_t type = H5Tvlen_create(H5T_STD_REF_OBJ);
  if (H5Tget_class(stored) == H5T_VLEN && H5Sget_simple_extent_npoints(space) == f->dims &&
      H5Aread(attr, type, list) >= 0) {
    for (int i = 0; i < f->dims; i++)
      take_scale(&f->dim[i], array, &list[i]);
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, list);
  }
  ct__h5_drop(type);
  ct__h5_drop(space);
  ct__h5_drop(stored);
  ct__h5_drop(attr);
}

static void read_array(ct_field_file_t *f, const char *name)
{
  hsize_t extent[CT_MAX_DIMS], chunk[CT_MAX_DIMS];
  hid_t array = H5Dopen2(f->like, name, H5P_DEFAULT);
  if (array < 0) return;
  hid_t space = H5Dget_space(array), creation = H5Dget_create_plist(array);
  int n = H5Sget_simple_extent_ndims(space);
  if (n > 0 && n <= CT_MAX_DIMS && H5Sget_simple_extent_dims(space, extent, NULL) == n) {
    int chunked =
        H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, CT_MAX_DIMS, chunk) == n;
    f->dims = n;
    for (int i = 0; i < n; i++)
      f->dim[i] = (dim_t){.extent = extent[i], .chunk = chunked ? chunk[i] : 0, .scale = -1};
    read_labels(f, array);
    read_scales(f, array);
  }
  ct__h5_drop(creation);
  ct__h5_drop(space);
  ct__h5_drop(array);
}

static void read_like(ct_field_file_t *f, const ct_field_like_t *like)
{
  f->channels_last = like->channels_last;
  if (!like->path || ct_file_regular(like->path) != CT_OK) return;
  ct__h5_lock();
  if (ct__h5_open(like->path, &f->like) == CT_OK) read_array(f, like->array);
  ct__h5_unlock();
}

/* Returns the dim of the input array that corresponds to axis i of a field, or NULL. */
static const dim_t *like_of(const ct_field_file_t *f, const ct_shape_t *x, int channels, int i)
{
  int space = x->ndim - 1 - channels, with_channels = f->dims == space + 2;
  int last = with_channels && f->channels_last;
  if (space < 1 || (f->dims != space + 1 && !with_channels)) return NULL;
  if (i == 0) return &f->dim[0];
  if (channels && i == 1 && !with_channels) return NULL;
  if (channels && i == 1) return &f->dim[last ? f->dims - 1 : 1];
  return &f->dim[i - channels + (with_channels && !last)];
}

/* ---- arrays ---- */

static void set_chunks(const ct_field_file_t *f, const ct_shape_t *x, int channels, hsize_t *chunk)
{
  size_t row = ct_dtype_size(x->dtype) * (size_t)ct_shape_sample(x);
  size_t bytes = ct_dtype_size(x->dtype);
  chunk[0] = x->ndim - channels < 2 && row < SMALL_SAMPLE ? CHUNK_BYTES / (row ? row : 1) : 1;
  if (chunk[0] > (hsize_t)x->dim[0]) chunk[0] = (hsize_t)x->dim[0];
  for (int i = 1; i < x->ndim; i++) {
    const dim_t *d = like_of(f, x, channels, i);
    int fits = d && d->chunk && d->extent == (hsize_t)x->dim[i];
    chunk[i] = fits ? d->chunk : (hsize_t)x->dim[i];
    bytes *= chunk[i];
  }
  for (int i = 1; i < x->ndim; i++)
    for (; bytes > CHUNK_MOST && chunk[i] > 1; bytes /= 2)
      chunk[i] = (chunk[i] + 1) / 2;
}

static hid_t create_array(const ct_field_file_t *f, const char *name, const ct_shape_t *x,
                          int channels)
{
  const float nan = NAN;
  const int none = -1;
  hsize_t dims[CT_MAX_DIMS], chunk[CT_MAX_DIMS];
  hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_DATASET_CREATE);
  for (int i = 0; i < x->ndim; i++)
    dims[i] = (hsize_t)x->dim[i];
  set_chunks(f, x, channels, chunk);
  ct__h5_create_groups(f->file, name);
  H5Pset_char_encoding(links, H5T_CSET_UTF8);
  H5Pset_obj_track_times(creation, 0);
  H5Pset_chunk(creation, x->ndim, chunk);
  if (x->dtype == CT_F32)
    H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &nan);
  else if (x->dtype == CT_U8)
    H5Pset_fill_value(creation, H5T_NATIVE_UCHAR, &(unsigned char){255});
  else
    H5Pset_fill_value(creation, H5T_NATIVE_INT, &none);
  hid_t type = ct__h5_type_stored(x->dtype), space = H5Screate_simple(x->ndim, dims, NULL);
  hid_t array = H5Dcreate2(f->file, name, type, space, links, creation, H5P_DEFAULT);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(creation);
  ct__h5_drop(links);
  return array;
}

/* Writes a list for each dim as an attribute.  Returns 1 on success. */
static int put_lists(hid_t array, const char *name, hid_t type, int n, const void *lists)
{
  hsize_t dim = (hsize_t)n;
  hid_t space = H5Screate_simple(1, &dim, NULL);
  hid_t attr = H5Acreate2(array, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  int written = attr >= 0 && H5Awrite(attr, type, lists) >= 0;
  ct__h5_drop(attr);
  ct__h5_drop(space);
  ct__h5_drop(type);
  return written;
}

/* Copies coordinates into the file, if they are not there yet. */
static int copy_scale(const ct_field_file_t *f, const dim_t *d, hobj_ref_t *ref)
{
  if (H5Lexists(f->file, d->name, H5P_DEFAULT) <= 0) {
    if (H5Ocopy(d->scale, ".", f->file, d->name, H5P_DEFAULT, H5P_DEFAULT) < 0) return 0;
    hid_t copy = H5Oopen(f->file, d->name, H5P_DEFAULT);
    if (ct__h5_has_attr(copy, "REFERENCE_LIST")) H5Adelete(copy, "REFERENCE_LIST");
    ct__h5_drop(copy);
  }
  return H5Rcreate(ref, f->file, d->name, H5R_OBJECT, -1) >= 0;
}

/* Writes the names of the dims, and their coordinates where those have the extent of the field.
 * Returns 1 on success. */
static int put_names(const ct_field_file_t *f, hid_t array, const ct_shape_t *x, int channels)
{
  const char *name[CT_MAX_DIMS];
  hobj_ref_t ref[CT_MAX_DIMS];
  hvl_t list[CT_MAX_DIMS] = {{0}};
  int names = 0, scales = 0;
  for (int i = 0; i < x->ndim; i++) {
    const dim_t *d = like_of(f, x, channels, i);
    int is_scale = d && d->scale >= 0 && d->extent == (hsize_t)x->dim[i];
    name[i] = d ? d->name : "";
    names += name[i][0] != 0;
    if (is_scale && copy_scale(f, d, &ref[i])) list[i] = (hvl_t){1, &ref[i]};
    scales += list[i].len > 0;
  }
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  if (names && !put_lists(array, "DIMENSION_LABELS", text, x->ndim, name)) return 0;
  if (!names) ct__h5_drop(text);
  return !scales ||
         put_lists(array, "DIMENSION_LIST", H5Tvlen_create(H5T_STD_REF_OBJ), x->ndim, list);
}

int ct_field_file_add(ct_field_file_t *f, const char *name, const ct_shape_t *shape, int channels,
                      int *k)
{
  int rc = CT_OK;
  if (f->arrays == ARRAYS) CT_FAIL(CT_ERR_UNSUP, "%s: more than %d arrays", f->path, ARRAYS);
  ct__h5_lock();
  hid_t array = create_array(f, name, shape, channels);
  if (array < 0 || !put_names(f, array, shape, channels)) rc = failed(f, name);
  ct__h5_unlock();
  *k = f->arrays;
  f->dtype[f->arrays] = shape->dtype;
  f->array[f->arrays++] = array;
out:
  return rc;
}

int ct_field_file_put(ct_field_file_t *f, int k, int64_t sample, const void *data)
{
  int rc = ct_fault("fields.put");
  if (rc != CT_OK) return rc;
  ct__h5_lock();
  if (!ct__h5_write_rows(f->array[k], f->dtype[k], sample, 1, data)) rc = failed(f, "a sample");
  ct__h5_unlock();
  return rc;
}

int ct_field_file_text(ct_field_file_t *f, const char *name, const char *text)
{
  int rc = CT_OK;
  ct__h5_lock();
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0);
  H5Tset_size(type, strlen(text) + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hid_t array = H5Dcreate2(f->file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (array < 0 || H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
    rc = failed(f, name);
  ct__h5_drop(array);
  ct__h5_drop(creation);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_unlock();
  return rc;
}

/* ---- the file ---- */

int ct_field_file_create(const char *path, const ct_field_like_t *like, ct_field_file_t **out)
{
  int rc = CT_OK;
  ct_field_file_t *f = ct_mem_alloc(sizeof *f, "a file of fields");
  *out = NULL;
  CT_TRY(f ? CT_OK : CT_ERR_NOMEM);
  f->file = f->like = -1;
  CT_TRY(ct_text_format(f->path, sizeof f->path, "%s", path));
  CT_TRY(ct_text_format(f->temporary, sizeof f->temporary, "%s.tmp", path));
  read_like(f, like);
  ct_temporary_begin(f->temporary);
  CT_TRY(ct__h5_create(f->temporary, 1, &f->file));
  *out = f;
  f = NULL;
out:
  ct_field_file_discard(f);
  return rc;
}

/* Closes the input file.  The arrays are closed with the file that holds them. */
static void close_like(ct_field_file_t *f)
{
  ct__h5_lock();
  for (int i = 0; i < f->dims; i++)
    ct__h5_drop(f->dim[i].scale);
  ct__h5_drop(f->like);
  ct__h5_unlock();
  f->dims = 0;
  f->like = -1;
}

int ct_field_file_commit(ct_field_file_t *f)
{
  int rc = CT_OK;
  hid_t file = f->file;
  f->file = -1;
  CT_TRY(ct__h5_finish(f->temporary, file));
  CT_TRY(ct_file_commit(f->temporary, f->path));
out:
  if (rc != CT_OK) ct_file_remove(f->temporary);
  ct_field_file_discard(f);
  return rc;
}

void ct_field_file_discard(ct_field_file_t *f)
{
  if (!f) return;
  close_like(f);
  ct__h5_abandon(f->temporary, f->file);
  ct_temporary_end(f->temporary);
  ct_mem_free(f);
}
