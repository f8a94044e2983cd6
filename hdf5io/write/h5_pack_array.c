/* An array of a shard that is being written: made, and filled row by row. */
#include "base/ct_err.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/write/h5_pack.h"

int ct__pack_failed(const pack_t *p, const char *what)
{
  char why[200];
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write %s: %s", p->s->path, what,
                    ct__h5_why(why, sizeof why));
}

int ct__pack_create(const pack_t *p, const char *name, const ct_shape_t *x, int chunked, hid_t *out)
{
  hsize_t dims[CT_MAX_DIMS], chunk[CT_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++)
    dims[i] = chunk[i] = (hsize_t)x->dim[i];
  chunk[0] = (hsize_t)p->chunk;
  int small = chunked && p->src->unsigned16; /* samples */
  hid_t type = small ? H5Tcopy(H5T_STD_U16LE) : ct__h5_type_stored(x->dtype),
        space = H5Screate_simple(x->ndim, dims, NULL);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0); /* the same data are the same bytes */
  if (chunked) {
    H5Pset_chunk(creation, x->ndim, chunk);
    if (p->s->deflate > 0 && ct_dtype_size(x->dtype) > 1) H5Pset_shuffle(creation);
    if (p->s->deflate > 0) H5Pset_deflate(creation, (unsigned)p->s->deflate);
  }
  *out = H5Dcreate2(p->file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ct__h5_drop(creation);
  ct__h5_drop(space);
  ct__h5_drop(type);
  return *out >= 0 ? CT_OK : ct__pack_failed(p, name);
}

int ct__pack_put(const pack_t *p, const char *what, hid_t array, ct_dtype_t type, int64_t first,
                 int64_t rows, const void *from)
{
  if (rows < 1) return CT_OK;
  ct__h5_lock();
  int rc = ct__h5_write_rows(array, type, first, rows, from) ? CT_OK : ct__pack_failed(p, what);
  ct__h5_unlock();
  return rc;
}
