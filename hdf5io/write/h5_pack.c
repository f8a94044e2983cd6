/* Writes a shard of a data set in the form that this program reads fastest: chunks of whole
 * samples, small enough for random access, with shuffle and deflate; or the concatenated bytes of
 * image files, which are read by their offsets. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_pack.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/write/h5_pack.h"

/* Large enough to compress and read efficiently, small enough to be read for a single sample. */
enum { CHUNK_BYTES = 128 << 10 };

/* Returns 1 if the names do not fit: an attribute must fit into the object header of the root
 * group. */
static int too_long(const char *const *name, int64_t n)
{
  enum { MOST = 60000 };
  size_t longest = 0;
  for (int64_t i = 0; i < n; i++)
    if (strlen(name[i]) > longest) longest = strlen(name[i]);
  return (double)n * (double)(longest + 1) > MOST;
}

static int class_names(const pack_t *p)
{
  int rc = CT_OK;
  const char *const *name = p->src->class_names;
  int64_t n = p->src->classes - p->s->first_class;
  if (p->s->classes < n) n = p->s->classes;
  if (!name || n < 1 || too_long(name + p->s->first_class, n)) return CT_OK;
  if (!ct__h5_put_attr_texts(p->file, "class_names", name + p->s->first_class, n))
    rc = ct__pack_failed(p, "class_names");
  return rc;
}

static int create_arrays(pack_t *p)
{
  int rc = CT_OK;
  char format[64];
  ct_shape_t x = p->src->x, labels = {.dtype = CT_I32, .ndim = 1, .dim = {p->s->samples}};
  ct_shape_t targets = {.dtype = CT_F32, .ndim = 2, .dim = {p->s->samples, p->src->targets}};
  x.dim[0] = p->s->samples;
  snprintf(format, sizeof format, "%s %d", CT__H5_PACK_KIND, CT__H5_PACK_NUMBER);
  ct__h5_lock();
  if (!ct__h5_put_attr_text(p->file, "format", format)) CT_TRY(ct__pack_failed(p, "format"));
  if (p->s->classes > 0 && !ct__h5_put_attr_int(p->file, "classes", p->s->classes))
    CT_TRY(ct__pack_failed(p, "classes"));
  CT_TRY(class_names(p));
  if (p->src->encoded) {
    CT_TRY(ct__pack_encoded_create(p));
  } else {
    CT_TRY(ct__pack_create(p, "images", &x, 1, &p->images));
    if (x.ndim >= 4 && !ct__h5_put_attr_text(p->images, "layout", x.ndim == 4 ? "NCHW" : "NCDHW"))
      CT_TRY(ct__pack_failed(p, "layout"));
  }
  CT_TRY(ct__pack_create(p, p->src->targets ? "targets" : "labels",
                         p->src->targets ? &targets : &labels, 0, &p->labels));
out:
  ct__h5_unlock();
  return rc;
}

/* ---- samples ---- */

/* Writes buffered samples, starting with sample \a first. */
static int flush_chunk(pack_t *p, int64_t first, int64_t n)
{
  int rc = CT_OK;
  if (p->bad) return CT_OK;
  if (!p->src->encoded)
    CT_TRY(ct__pack_put(p, "samples", p->images, p->src->x.dtype, first, n, p->x));
  CT_TRY(ct__pack_put(p, "labels", p->labels, p->src->targets ? CT_F32 : CT_I32, first, n, p->y));
out:
  return rc;
}

static int is_bad(int rc)
{
  return rc == CT_ERR_IO || rc == CT_ERR_FORMAT || rc == CT_ERR_DATA;
}

/* Reads sample \a i of the shard into position \a k of the chunk buffer. */
static int take_sample(pack_t *p, int64_t i, int64_t k)
{
  int rc = CT_OK;
  const ct_pack_source_t *src = p->src;
  int64_t index = p->s->index[i];
  p->sample.x = (char *)p->x + (size_t)k * p->row;
  p->sample.targets = (float *)p->y + k * src->targets;
  rc = src->read(src->state, index, &p->sample);
  if (is_bad(rc)) {
    p->bad++;
    return p->s->bad ? p->s->bad(p->s->of, index) : rc;
  }
  if (rc == CT_OK && !src->targets)
    ((int32_t *)p->y)[k] = src->label(src->state, index) - p->s->first_class;
  if (rc == CT_OK && src->encoded && !p->bad) CT_TRY(ct__pack_encoded_take(p, i));
out:
  return rc;
}

static int write_samples(pack_t *p)
{
  int rc = CT_OK;
  for (int64_t first = 0; first < p->s->samples; first += p->chunk) {
    int64_t left = p->s->samples - first, n = left < p->chunk ? left : p->chunk;
    for (int64_t k = 0; k < n; k++) {
      CT_TRY(take_sample(p, first + k, k));
      if (p->s->progress) CT_TRY(p->s->progress(p->s->of));
    }
    CT_TRY(flush_chunk(p, first, n));
  }
  if (p->src->encoded && !p->bad) CT_TRY(ct__pack_encoded_end(p));
out:
  return rc;
}

/* ---- the file ---- */

static int close_array(const pack_t *p, const char *what, hid_t *array)
{
  int rc = *array >= 0 && H5Dclose(*array) < 0 ? ct__pack_failed(p, what) : CT_OK;
  *array = -1;
  return rc;
}

/* HDF5 may delay small writes until an array is closed. */
static int close_arrays(pack_t *p)
{
  int rc = CT_OK, other;
  ct__h5_lock();
  rc = close_array(p, "images", &p->images);
  if ((other = close_array(p, "labels", &p->labels)) != CT_OK) rc = other;
  ct__h5_unlock();
  return rc;
}

static int make_buffers(pack_t *p)
{
  const ct_pack_source_t *src = p->src;
  int64_t most = p->s->chunk > 0 ? p->s->chunk : INT64_MAX;
  p->row = src->encoded ? 0 : (size_t)ct_shape_sample(&src->x) * ct_dtype_size(src->x.dtype);
  if (src->encoded)
    p->chunk = 1024; /* labels only */
  else
    p->chunk = p->row < CHUNK_BYTES ? (int64_t)(CHUNK_BYTES / p->row) : 1;
  if (p->chunk > most) p->chunk = most;
  if (p->chunk > p->s->samples) p->chunk = p->s->samples > 0 ? p->s->samples : 1;
  size_t label = src->targets ? (size_t)src->targets * sizeof(float) : sizeof(int32_t);
  p->x = ct_mem_array(p->chunk, p->row + 1, "a chunk of samples");
  p->y = ct_mem_array(p->chunk, label, "a chunk of labels");
  return p->x && p->y ? CT_OK : CT_ERR_NOMEM;
}

int ct_pack_write_shard(const ct_pack_source_t *src, const ct_pack_shard_t *s, int64_t *bad)
{
  int rc = CT_OK;
  pack_t p = {.src = src, .s = s, .file = -1, .images = -1, .labels = -1};
  *bad = 0;
  CT_TRY(make_buffers(&p));
  CT_TRY(ct__h5_create(s->path, 0, &p.file));
  CT_TRY(create_arrays(&p));
  CT_TRY(write_samples(&p));
  CT_TRY(close_arrays(&p));
  *bad = p.bad;
  if (p.bad) goto out;
  hid_t file = p.file;
  p.file = -1;
  CT_TRY(ct__h5_finish(s->path, file));
out:
  close_arrays(&p);
  ct__h5_abandon(s->path, p.file);
  ct__pack_encoded_clear(&p);
  ct_mem_free(p.sample.file);
  ct_mem_free(p.x);
  ct_mem_free(p.y);
  return rc;
}
