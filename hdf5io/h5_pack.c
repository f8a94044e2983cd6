/* Writes data sets as this program likes to read them: shards of about the same size, chunks of
 * whole samples that are small enough for random order, shuffle and deflate.  All shards get their
 * names only when all are whole. */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/ct_sampler.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"

/* Large enough to compress and to read at once, small enough to be read for one sample. */
enum { CHUNK_BYTES = 128 << 10 };

/* A shard being written. */
typedef struct pack {
  const ct_pack_source_t *src;
  int deflate;
  int64_t classes;
  hid_t file, images, labels;
  int64_t count, chunk;   /* samples of the shard and of a chunk */
  void *x;                /* [chunk] */
  void *y;                /* [chunk] labels, or [chunk][targets] */
  char path[CT_PATH_MAX]; /* of the temporary */
} pack_t;

/* ---- names ---- */

/* The pattern's one %d (with a width: %03d), or NULL; CT_ERR_USAGE if there are more or others. */
static int find_number(const char *pattern, const char **number, int *width)
{
  *number = NULL;
  for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 1, '%')) {
    const char *d = p + 1;
    int digits = 0;
    for (; isdigit((unsigned char)*d) && digits < 100; d++)
      digits = 10 * digits + (*d - '0');
    if (*d != 'd' || *number || digits > 20)
      return ct_err_set(
          CT_ERR_USAGE, __FILE__, __LINE__,
          "output '%s': expected one %%d for the number of the shard (train-%%03d.h5)", pattern);
    *number = p;
    *width = digits;
  }
  return CT_OK;
}

static int shard_name(const char *pattern, int shards, int i, char *path, size_t cap)
{
  int rc = CT_OK, width = 0;
  const char *number;
  CT_TRY(find_number(pattern, &number, &width));
  if (!number && shards > 1)
    CT_FAIL(CT_ERR_USAGE, "output '%s': %d shards need a %%d in their name (train-%%03d.h5)",
            pattern, shards);
  if (!number)
    CT_TRY(ct_text_format(path, cap, "%s", pattern));
  else
    CT_TRY(ct_text_format(path, cap, "%.*s%0*d%s", (int)(number - pattern), pattern, width, i,
                          strchr(number, 'd') + 1));
out:
  return rc;
}

static int temporary_name(const char *pattern, int shards, int i, char *path, size_t cap)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  CT_TRY(shard_name(pattern, shards, i, name, sizeof name));
  CT_TRY(ct_text_format(path, cap, "%s.tmp", name));
out:
  return rc;
}

/* ---- one shard ---- */

static int failed(const pack_t *p, const char *what)
{
  char why[200];
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write %s: %s", p->path, what,
                    ct__h5_why(why, sizeof why));
}

static int create_array(const pack_t *p, const char *name, const ct_shape_t *x, int chunked,
                        hid_t *out)
{
  hsize_t dims[CT_MAX_DIMS], chunk[CT_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++)
    dims[i] = chunk[i] = (hsize_t)x->dim[i];
  dims[0] = (hsize_t)p->count;
  chunk[0] = (hsize_t)p->chunk;
  hid_t type = ct__h5_type_stored(x->dtype), space = H5Screate_simple(x->ndim, dims, NULL);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0); /* the same data are the same bytes */
  if (chunked) {
    H5Pset_chunk(creation, x->ndim, chunk);
    if (p->deflate > 0 && ct_dtype_size(x->dtype) > 1) H5Pset_shuffle(creation);
    if (p->deflate > 0) H5Pset_deflate(creation, (unsigned)p->deflate);
  }
  *out = H5Dcreate2(p->file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ct__h5_drop(creation);
  ct__h5_drop(space);
  ct__h5_drop(type);
  return *out >= 0 ? CT_OK : failed(p, name);
}

static int create_arrays(pack_t *p)
{
  int rc = CT_OK;
  ct_shape_t labels = {.dtype = CT_I32, .ndim = 1, .dim = {1}};
  ct_shape_t targets = {.dtype = CT_F32, .ndim = 2, .dim = {1, p->src->targets}};
  ct__h5_lock();
  if (!ct__h5_put_attr_text(p->file, "format", "ctrain-hpc dataset 1")) CT_TRY(failed(p, "format"));
  if (p->classes > 0 && !ct__h5_put_attr_int(p->file, "classes", p->classes))
    CT_TRY(failed(p, "classes"));
  CT_TRY(create_array(p, "images", &p->src->x, 1, &p->images));
  if (p->src->x.ndim >= 4 &&
      !ct__h5_put_attr_text(p->images, "layout", p->src->x.ndim == 4 ? "NCHW" : "NCDHW"))
    CT_TRY(failed(p, "layout"));
  if (p->src->targets)
    CT_TRY(create_array(p, "targets", &targets, 0, &p->labels));
  else
    CT_TRY(create_array(p, "labels", &labels, 0, &p->labels));
out:
  ct__h5_unlock();
  return rc;
}

static int write_samples(pack_t *p)
{
  int rc = CT_OK;
  for (int64_t first = 0; first < p->count; first += p->chunk) {
    int64_t n = p->count - first < p->chunk ? p->count - first : p->chunk;
    CT_TRY(p->src->next(p->src->state, (int)n, p->x, p->y));
    ct__h5_lock();
    if (!ct__h5_write_rows(p->images, p->src->x.dtype, first, n, p->x) ||
        !ct__h5_write_rows(p->labels, p->src->targets ? CT_F32 : CT_I32, first, n, p->y))
      rc = failed(p, "samples");
    ct__h5_unlock();
    if (rc != CT_OK) goto out;
  }
out:
  return rc;
}

/* HDF5 may hold back small writes until an array is closed. */
static int close_arrays(pack_t *p)
{
  int rc = CT_OK;
  ct__h5_lock();
  if (p->images >= 0 && H5Dclose(p->images) < 0) rc = failed(p, "images");
  if (p->labels >= 0 && H5Dclose(p->labels) < 0 && rc == CT_OK) rc = failed(p, "labels");
  p->images = p->labels = -1;
  ct__h5_unlock();
  return rc;
}

static int write_shard(pack_t *p)
{
  int rc = CT_OK;
  p->file = p->images = p->labels = -1;
  CT_TRY(ct__h5_create(p->path, &p->file));
  CT_TRY(create_arrays(p));
  CT_TRY(write_samples(p));
  CT_TRY(close_arrays(p));
  hid_t file = p->file;
  p->file = -1;
  CT_TRY(ct__h5_finish(p->path, file));
out:
  ct__h5_abandon(p->path, p->file);
  return rc;
}

/* ---- all shards ---- */

static int write_all(pack_t *p, const char *pattern, int shards)
{
  int rc = CT_OK;
  for (int i = 0; i < shards; i++) {
    int64_t first;
    p->count = ct_sampler_cut(p->src->samples, i, shards, &first);
    CT_TRY(temporary_name(pattern, shards, i, p->path, sizeof p->path));
    CT_TRY(write_shard(p));
  }
out:
  return rc;
}

static int rename_all(const char *pattern, int shards)
{
  int rc = CT_OK, done = 0;
  char temporary[CT_PATH_MAX], path[CT_PATH_MAX];
  for (; done < shards; done++) {
    CT_TRY(shard_name(pattern, shards, done, path, sizeof path));
    CT_TRY(temporary_name(pattern, shards, done, temporary, sizeof temporary));
    CT_TRY(ct_file_commit(temporary, path));
  }
out:
  for (int i = 0; rc != CT_OK && i < done; i++)
    if (shard_name(pattern, shards, i, path, sizeof path) == CT_OK) unlink(path);
  return rc;
}

/* What is written takes the place of what had its name, be it a link to a file that is read. */
static int check_inputs(const ct_pack_source_t *src, const char *path)
{
  int rc = CT_OK;
  for (int i = 0; i < 2; i++)
    if (src->inputs[i] && ct_file_same(path, src->inputs[i]))
      CT_FAIL(CT_ERR_USAGE, "output '%s' is the file '%s', which is read: choose another name",
              path, src->inputs[i]);
out:
  return rc;
}

static int check_names(const ct_pack_source_t *src, const char *pattern, int shards)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  for (int i = 0; i < shards; i++) {
    CT_TRY(shard_name(pattern, shards, i, path, sizeof path));
    CT_TRY(check_inputs(src, path));
    CT_TRY(temporary_name(pattern, shards, i, path, sizeof path));
    CT_TRY(check_inputs(src, path));
  }
out:
  return rc;
}

static int check(const ct_pack_source_t *src, const char *pattern, int shards, int deflate)
{
  int rc = CT_OK;
  if (src->samples < 1) CT_FAIL(CT_ERR_ARG, "there is no sample to write");
  if (src->x.dtype != CT_U8 && src->x.dtype != CT_F32)
    CT_FAIL(CT_ERR_ARG, "samples of %s cannot be packed, only uint8 and float32",
            ct_dtype_name(src->x.dtype));
  if (shards < 1 || shards > src->samples)
    CT_FAIL(CT_ERR_USAGE, "%d shards for %lld samples: expected 1 to %lld", shards,
            (long long)src->samples, (long long)src->samples);
  if (deflate < 0 || deflate > 9)
    CT_FAIL(CT_ERR_USAGE, "deflate level %d: expected 0 (none) to 9", deflate);
  CT_TRY(check_names(src, pattern, shards));
out:
  return rc;
}

int ct_pack_write(const ct_pack_source_t *src, const char *pattern, int shards, int deflate,
                  int64_t classes)
{
  int rc = CT_OK, started = 0;
  char path[CT_PATH_MAX];
  pack_t p = {.src = src, .deflate = deflate, .classes = classes};
  CT_TRY(check(src, pattern, shards, deflate));
  size_t row = (size_t)ct_shape_sample(&src->x) * ct_dtype_size(src->x.dtype);
  int64_t most = src->samples / shards; /* chunks are not larger than the smallest shard */
  p.chunk = row < CHUNK_BYTES ? (int64_t)(CHUNK_BYTES / row) : 1;
  if (p.chunk > most) p.chunk = most;
  p.x = ct_mem_array(p.chunk, row, "a chunk of samples");
  size_t label = src->targets ? (size_t)src->targets * sizeof(float) : sizeof(int32_t);
  p.y = ct_mem_array(p.chunk, label, "a chunk of labels");
  if (!p.x || !p.y) CT_TRY(CT_ERR_NOMEM);
  started = 1;
  CT_TRY(write_all(&p, pattern, shards));
  CT_TRY(rename_all(pattern, shards));
out:
  for (int i = 0; rc != CT_OK && started && i < shards; i++)
    if (temporary_name(pattern, shards, i, path, sizeof path) == CT_OK) unlink(path);
  ct_mem_free(p.x);
  ct_mem_free(p.y);
  return rc;
}
