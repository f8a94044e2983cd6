/* A shard of image files as they are: one array of all their bytes, without chunks, so that a
 * reader fetches a sample by one read outside of HDF5's lock; and where each begins, how large its
 * image is, and where it came from. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/write/h5_pack.h"

enum { SIZES = 3 };

static size_t longest_name(const pack_t *p)
{
  size_t longest = 0;
  char name[CT_PATH_MAX];
  for (int64_t i = 0; i < p->s->samples; i++) {
    p->src->place(p->src->state, p->s->index[i], name, sizeof name);
    if (strlen(name) > longest) longest = strlen(name);
  }
  return longest + 1;
}

int ct__pack_encoded_create(pack_t *p)
{
  int rc = CT_OK;
  int64_t n = p->s->samples;
  ct_shape_t bytes = {.dtype = CT_U8, .ndim = 1};
  p->name_bytes = longest_name(p);
  p->offset = ct_mem_array(n + 1, sizeof *p->offset, "offsets of samples");
  p->size = ct_mem_array(n + 1, SIZES * sizeof *p->size, "sizes of images");
  p->name = ct_mem_array(n + 1, p->name_bytes, "names of samples");
  if (!p->offset || !p->size || !p->name) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < n; i++)
    p->offset[i + 1] = p->offset[i] + p->src->bytes(p->src->state, p->s->index[i]);
  bytes.dim[0] = p->offset[n];
  CT_TRY(ct__pack_create(p, "images", &bytes, 0, &p->images));
  if (!ct__h5_put_attr_text(p->images, "encoding", "image")) CT_TRY(ct__pack_failed(p, "encoding"));
out:
  return rc;
}

int ct__pack_encoded_take(pack_t *p, int64_t i)
{
  int rc = CT_OK;
  const ct_pack_sample_t *s = &p->sample;
  int64_t bytes = p->offset[i + 1] - p->offset[i];
  int32_t *size = p->size + SIZES * i;
  char *name = p->name + (size_t)i * p->name_bytes;
  if ((int64_t)s->file_bytes != bytes)
    CT_FAIL(CT_ERR_ARG, "a sample of %zu bytes was announced with %" PRId64, s->file_bytes, bytes);
  size[0] = s->height;
  size[1] = s->width;
  size[2] = s->channels;
  p->src->place(p->src->state, p->s->index[i], name, p->name_bytes);
  CT_TRY(ct__pack_put(p, "samples", p->images, CT_U8, p->offset[i], bytes, s->file));
out:
  return rc;
}

/* ---- what belongs to the samples ---- */

static int put_array(const pack_t *p, const char *name, const ct_shape_t *x, const void *from)
{
  int rc = CT_OK;
  hid_t array = -1;
  ct__h5_lock();
  rc = ct__pack_create(p, name, x, 0, &array);
  if (rc == CT_OK && x->dim[0] > 0 && !ct__h5_write_rows(array, x->dtype, 0, x->dim[0], from))
    rc = ct__pack_failed(p, name);
  if (array >= 0 && H5Dclose(array) < 0 && rc == CT_OK) rc = ct__pack_failed(p, name);
  ct__h5_unlock();
  return rc;
}

static int put_names(const pack_t *p)
{
  int rc = CT_OK;
  const char *what = "images.names";
  hsize_t n = (hsize_t)p->s->samples;
  ct__h5_lock();
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Tset_size(type, p->name_bytes);
  H5Tset_cset(type, H5T_CSET_UTF8);
  H5Pset_obj_track_times(creation, 0);
  hid_t array = H5Dcreate2(p->file, what, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (array < 0 || (n > 0 && H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, p->name) < 0))
    rc = ct__pack_failed(p, what);
  if (array >= 0 && H5Dclose(array) < 0 && rc == CT_OK) rc = ct__pack_failed(p, what);
  ct__h5_drop(creation);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_unlock();
  return rc;
}

int ct__pack_encoded_end(pack_t *p)
{
  int rc = CT_OK;
  int64_t n = p->s->samples;
  ct_shape_t offsets = {.dtype = CT_I64, .ndim = 1, .dim = {n + 1}};
  ct_shape_t sizes = {.dtype = CT_I32, .ndim = 2, .dim = {n, SIZES}};
  CT_TRY(put_array(p, "images.offsets", &offsets, p->offset));
  CT_TRY(put_array(p, "images.sizes", &sizes, p->size));
  CT_TRY(put_names(p));
out:
  return rc;
}

void ct__pack_encoded_clear(pack_t *p)
{
  ct_mem_free(p->offset);
  ct_mem_free(p->size);
  ct_mem_free(p->name);
}
