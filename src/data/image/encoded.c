/* Reads encoded samples: determines the part of an image that is needed, decodes and resizes it.
 * The result does not depend on the thread. */
#include "data/image/encoded.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "data/feed/ct_io_times.h"
#include "data/transform/transforms.h"

/* The image being decoded. */
typedef struct job {
  const ct_dataset_t *data;
  ct_image_info_t is;
  ct_image_part_t part;
  ct__view_t view;
  ct__image_taps_t taps[2];
  float *scratch; /* after the taps */
  int channels;
} job_t;

void ct__encoded_clear(ct__encoded_t *e)
{
  ct_mem_free(e->file.v);
  ct_mem_free(e->pixels);
  ct_mem_free(e->workspace);
  *e = (ct__encoded_t){0};
}

static int is_resized(const ct__view_t *v)
{
  return v->h != v->box.h || v->w != v->box.w;
}

/* Returns the largest reduction after which no upscaling is needed. */
static int reduction(const ct__encoded_t *e, const job_t *j)
{
  const ct__view_t *v = &j->view;
  if (!j->data->reduces || !ct_image_reduces(e->file.v, e->file.bytes)) return 1;
  for (int r = 8; r > 1; r /= 2)
    if (v->box.h >= r * v->h && v->box.w >= r * v->w) return r;
  return 1;
}

/* Without a resize only the window is cut out. */
static void plan_window(job_t *j)
{
  const ct__view_t *v = &j->view;
  j->part = (ct_image_part_t){1, v->box.top + v->window.top, v->box.left + v->window.left,
                              v->window.h, v->window.w};
}

/* One direction: the interval of \a length from \a start is resized to \a out; n outputs from \a
 * from on are wanted. */
static ct__image_span_t span(int64_t start, int64_t length, int reduce, int64_t out, int64_t from,
                             int64_t n)
{
  return (ct__image_span_t){.start = (double)start / reduce,
                            .length = (double)length / reduce,
                            .lo = start / reduce,
                            .hi = (start + length + reduce - 1) / reduce,
                            .out = out,
                            .from = from,
                            .n = n};
}

/* Returns the number of inputs that the outputs need, from *first on; afterwards t->first counts
 * from there. */
static int64_t encoded_cut(ct__image_taps_t *t, int64_t *first)
{
  int64_t end = 0;
  *first = INT64_MAX;
  for (int64_t i = 0; i < t->outputs; i++) {
    if (t->first[i] < *first) *first = t->first[i];
    if (t->first[i] + t->n[i] > end) end = t->first[i] + t->n[i];
  }
  for (int64_t i = 0; i < t->outputs; i++)
    t->first[i] -= (int32_t)*first;
  return end - *first;
}

static int64_t taps_room(const ct__image_span_t *s)
{
  return ct__image_taps_workspace((int64_t)ceil(s->length), s->out);
}

static int plan_resize(ct__encoded_t *e, job_t *j)
{
  int rc = CT_OK;
  const ct__view_t *v = &j->view;
  int reduce = j->part.reduce = reduction(e, j);
  ct__image_span_t down = span(v->box.top, v->box.h, reduce, v->h, v->window.top, v->window.h);
  ct__image_span_t across = span(v->box.left, v->box.w, reduce, v->w, v->window.left, v->window.w);
  int64_t rows = taps_room(&down), taps = rows + taps_room(&across);
  int64_t scratch = ct__image_resample_workspace(across.hi - across.lo, j->channels);
  void *workspace = e->workspace;
  CT_TRY(ct_mem_grow(&workspace, &e->workspace_cap, taps + scratch, sizeof *e->workspace));
  e->workspace = workspace;
  ct__image_taps_of(&down, e->workspace, &j->taps[0]);
  ct__image_taps_of(&across, e->workspace + rows, &j->taps[1]);
  j->scratch = e->workspace + taps;
  j->part.height = encoded_cut(&j->taps[0], &j->part.top);
  j->part.width = encoded_cut(&j->taps[1], &j->part.left);
out:
  return rc;
}

static int encoded_decode(ct__encoded_t *e, const job_t *j, uint8_t *to)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_DECODE);
  int rc = ct_image_decode_part(e->file.v, e->file.bytes, &j->is, &j->part, j->channels, to);
  ct_io_enter(before);
  ct_io_count(CT_IO_DECODE, j->part.height * j->part.width * j->channels);
  return rc;
}

static int resize(ct__encoded_t *e, job_t *j, uint8_t *to)
{
  int rc = CT_OK;
  CT_TRY(plan_resize(e, j));
  int64_t bytes = j->part.height * j->part.width * j->channels;
  void *pixels = e->pixels;
  CT_TRY(ct_mem_grow(&pixels, &e->pixels_cap, bytes, 1));
  e->pixels = pixels;
  CT_TRY(encoded_decode(e, j, e->pixels));
  ct_io_phase_t before = ct_io_enter(CT_IO_TRANSFORM);
  ct__image_resample(e->pixels, j->part.width, j->channels, j->taps, j->scratch, to);
  ct_io_enter(before);
out:
  return rc;
}

static void flip(uint8_t *x, int64_t h, int64_t w, int channels)
{
  for (int64_t row = 0; row < h; row++, x += w * channels)
    for (int64_t i = 0; i < w / 2; i++)
      for (int c = 0; c < channels; c++) {
        uint8_t *a = &x[i * channels + c], *b = &x[(w - 1 - i) * channels + c], left = *a;
        *a = *b;
        *b = left;
      }
}

/* Decodes the bytes in e->file. */
static int encoded_make(ct__encoded_t *e, const ct_dataset_t *d, uint64_t seed, int64_t epoch,
                        int64_t id, uint8_t *to)
{
  int rc = CT_OK;
  job_t j = {.data = d, .channels = (int)d->info.x.dim[1]};
  CT_TRY(ct_image_info(e->file.v, e->file.bytes, &j.is));
  const char *unfit =
      ct__decode_time_view(d->decode_time, j.is.height, j.is.width, seed, epoch, id, &j.view);
  if (unfit)
    CT_FAIL(CT_ERR_DATA, "is %lld x %lld pixels, which %s cannot take", (long long)j.is.height,
            (long long)j.is.width, unfit);
  if (is_resized(&j.view)) {
    CT_TRY(resize(e, &j, to));
  } else {
    plan_window(&j);
    CT_TRY(encoded_decode(e, &j, to));
  }
  if (j.view.flip) flip(to, j.view.window.h, j.view.window.w, j.channels);
out:
  return rc;
}

static int read_file(const ct_dataset_t *d, int64_t id, ct_reader_file_t *to)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_READ);
  int rc = d->ops->encoded(d->reader, id, to);
  ct_io_enter(before);
  if (rc == CT_OK) ct_io_count(CT_IO_READ, (int64_t)to->bytes);
  return rc;
}

/* Prefixes the error with the origin of the sample. */
static int at_sample(const ct_dataset_t *d, int64_t id, int rc)
{
  char location[300];
  d->ops->location(d->reader, id, location, sizeof location);
  return ct_err_prefix(rc, "%s: ", location);
}

int ct__encoded_read(ct__encoded_t *e, const ct_dataset_t *d, uint64_t seed, int64_t epoch, int n,
                     const int64_t ids[], uint8_t *x, void *dense_targets)
{
  int rc = CT_OK;
  int64_t sample = ct_shape_sample(&d->info.x);
  CT_TRY(d->ops->read(d->reader, n, ids, NULL, dense_targets));
  for (int i = 0; i < n; i++) {
    CT_TRY(read_file(d, ids[i], &e->file));
    rc = encoded_make(e, d, seed, epoch, ids[i], x + i * sample);
    if (rc != CT_OK) return at_sample(d, ids[i], rc);
  }
out:
  return rc;
}

/* ---- as stored ---- */

/* Decodes a whole image whose bytes have been read. */
static int decode_whole(ct_stored_t *to)
{
  int rc = CT_OK;
  ct_image_info_t is;
  CT_TRY(ct_image_info(to->file.v, to->file.bytes, &is));
  to->shape.dim[2] = is.height;
  to->shape.dim[3] = is.width;
  int64_t bytes = ct_shape_sample(&to->shape);
  CT_TRY(ct_mem_grow(&to->v, &to->cap, bytes, 1));
  CT_TRY(ct_image_decode(to->file.v, to->file.bytes, &is, (int)to->shape.dim[1], to->v));
  ct_io_count(CT_IO_DECODE, bytes);
out:
  return rc;
}

int ct_dataset_stored(const ct_dataset_t *d, int64_t index, ct_stored_t *to, void *y)
{
  int rc = CT_OK;
  to->shape = d->info.x;
  if (d->decode_time) { /* info.x is the shape after them; each file has its own */
    CT_TRY(d->ops->read(d->reader, 1, &index, NULL, y));
    CT_TRY(read_file(d, index, &to->file));
    ct_io_phase_t before = ct_io_enter(CT_IO_DECODE);
    rc = decode_whole(to);
    ct_io_enter(before);
    return rc == CT_OK ? rc : at_sample(d, index, rc);
  }
  if (d->info.varies) d->ops->shape(d->reader, index, &to->shape);
  CT_TRY(
      ct_mem_grow(&to->v, &to->cap, ct_shape_sample(&to->shape), ct_dtype_size(to->shape.dtype)));
  CT_TRY(d->ops->read(d->reader, 1, &index, to->v, y));
out:
  return rc;
}

void ct_stored_clear(ct_stored_t *s)
{
  ct_mem_free(s->v);
  ct_mem_free(s->file.v);
  *s = (ct_stored_t){0};
}
