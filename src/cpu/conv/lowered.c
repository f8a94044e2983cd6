/* Convolution as im2col and GEMM: supports every shape on every instruction set.  It is the
 * fallback for convolutions that the faster algorithms refuse: windows that oneDNN computes wrong
 * (conv/onednn.c) if they have groups, more than 16 taps in a row, or bf16.
 *
 * A column of the unfolded matrix is the window of one output; a chunk of columns is processed at a
 * time.  bf16 is converted to float32 copies.  The gradient of the weights is summed over fixed
 * parts of the batch, independent of the number of threads. */
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "cpu/conv/conv.h"
#include "cpu/kern/loops.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/gemm/primitive.h"
#include <omp.h>
#include <string.h>

enum {
  CHUNK_FLOATS = 1 << 17, /* maximum size of an unfolded chunk: it fits the L2 cache */
  CHUNK_MIN = 16,         /* minimum columns of a chunk */
  PARTS_MAX = 16,         /* maximum parts of a batch, each with a copy of the gradient */
  PARTS_FLOATS = 1 << 22  /* maximum size of all copies of the gradient */
};

/* Images are volumes of depth 1. */
typedef struct lowered {
  ct_op_desc_t desc;
  int pass;
  int64_t in, out; /* channels per group */
  int64_t x_size[3], y_size[3];
  int64_t kernel[3], stride[3], pad[3], dilate[3];
  int64_t x_pixels, y_pixels, taps;
  int64_t depth; /* rows of the unfolded matrix */
  int64_t chunk; /* columns that are unfolded at a time */
  int64_t parts; /* parts of the batch */
  /* sizes in floats: */
  int64_t x_copy, y_copy; /* float32 copies of x and y; 0 if they are float32 */
  int64_t weights;        /* all weights, or a copy of their gradient */
} lowered_t;

/* ---- entries of the algorithm table ---------------------------------------------------------- */

/* Returns the estimated speed relative to the peak.  It is clearly lower than that of oneDNN's GEMM
 * convolutions (conv/onednn.c): the plan reorders activations in another layout first, and images
 * are unfolded one by one. */
static double efficiency(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  double fast = d->u.conv.groups > 1 ? 0.03 : job->pass == CT_BWD_PARAM ? 0.1 : 0.2;
  if (job->dev->isa == CPU__PORTABLE && !CPU__NEON) fast *= 0.25;
  return d->x.dtype == CT_F32 ? fast : 0.1 * fast;
}

static int lowered_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  if (job->at.x != CT_PLAIN || job->at.y != CT_PLAIN)
    return cpu__refuse(why, "for plain activations");
  *cost = (cpu__cost_t){ct_op_flops(d, CT_FWD) / 2 / efficiency(job), 0};
  return 1;
}

static int lowered_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__conv_weights(job->desc, CT_F32, CT_PLAIN, out);
}

static void set_geometry(lowered_t *t)
{
  const ct_op_desc_t *d = &t->desc;
  int space = d->x.ndim - 2;
  t->x_pixels = t->y_pixels = t->taps = 1;
  for (int i = 0; i < 3; i++) {
    int from = i - (3 - space); /* images have depth 1 */
    t->x_size[i] = from < 0 ? 1 : d->x.dim[2 + from];
    t->y_size[i] = from < 0 ? 1 : d->y.dim[2 + from];
    t->kernel[i] = from < 0 ? 1 : d->u.conv.kernel[from];
    t->stride[i] = from < 0 ? 1 : d->u.conv.stride[from];
    t->pad[i] = from < 0 ? 0 : d->u.conv.pad[from];
    t->dilate[i] = from < 0 ? 1 : d->u.conv.dilate[from];
    t->x_pixels *= t->x_size[i];
    t->y_pixels *= t->y_size[i];
    t->taps *= t->kernel[i];
  }
}

static int lowered_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  lowered_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  if (!t) return CT_ERR_NOMEM;
  t->desc = *d;
  t->pass = job->pass;
  set_geometry(t);
  t->in = d->x.dim[1] / d->u.conv.groups;
  t->out = d->y.dim[1] / d->u.conv.groups;
  t->depth = t->in * t->taps;
  t->weights = d->y.dim[1] * t->depth;
  t->chunk = CHUNK_FLOATS / t->depth;
  if (t->chunk < CHUNK_MIN) t->chunk = CHUNK_MIN;
  if (t->chunk > t->y_pixels) t->chunk = t->y_pixels;
  t->parts = ct_least(d->x.dim[0], ct_least(PARTS_MAX, PARTS_FLOATS / t->weights));
  if (t->parts < 1) t->parts = 1;
  if (d->x.dtype != CT_F32) {
    t->x_copy = ct_round_up(ct_shape_count(&d->x), 16);
    t->y_copy = ct_round_up(ct_shape_count(&d->y), 16);
  }
  int64_t floats = t->x_copy + t->y_copy + job->dev->threads * t->depth * t->chunk;
  if (job->pass == CT_BWD_PARAM && t->parts > 1) floats += t->parts * t->weights;
  out->scratch = (size_t)floats * sizeof(float);
  return lowered_stored(job, &out->w);
}

static void lowered_clear(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

/* ---- unfolding ------------------------------------------------------------------------------- */

/* Copies some neighbouring columns of a row of the matrix; their windows belong to outputs in one
 * row of y.  `line`: the row of x at this tap (kernel element), or NULL outside the image.  back:
 * adds the columns to x. */
static void lowered_move(const lowered_t *t, float *line, int64_t at, int64_t count, float *cols,
                         int back)
{
  for (int64_t i = 0; i < count; i++, at += t->stride[2]) {
    int inside = line && at >= 0 && at < t->x_size[2];
    if (!back)
      cols[i] = inside ? line[at] : 0;
    else if (inside)
      line[at] += cols[i];
  }
}

/* Returns the row of x that position `at` of y (depth, height) reads at a tap. */
static float *lowered_line_of(const lowered_t *t, float *plane, const int64_t at[3],
                              const int64_t tap[3])
{
  for (int i = 0; i < 2; i++) {
    int64_t k = at[i] * t->stride[i] - t->pad[i] + tap[i] * t->dilate[i];
    if (k < 0 || k >= t->x_size[i]) return NULL;
    plane += k * (i ? t->x_size[2] : t->x_size[1] * t->x_size[2]);
  }
  return plane;
}

/* Unfolds columns `from` to `to` for the channels of a group, whose first element is at x; back:
 * folds (col2im). */
static void unfold(const lowered_t *t, float *x, int64_t from, int64_t to, float *cols, int back)
{
  for (int64_t k = 0; k < t->depth; k++) {
    float *plane = x + k / t->taps * t->x_pixels, *row = cols + k * (to - from);
    const int64_t tap[3] = {k % t->taps / (t->kernel[1] * t->kernel[2]),
                            k % t->taps / t->kernel[2] % t->kernel[1], k % t->kernel[2]};
    for (int64_t n, p = from; p < to; p += n) {
      const int64_t at[3] = {p / (t->y_size[1] * t->y_size[2]), p / t->y_size[2] % t->y_size[1],
                             p % t->y_size[2]};
      n = ct_least(t->y_size[2] - at[2], to - p);
      lowered_move(t, lowered_line_of(t, plane, at, tap),
                   at[2] * t->stride[2] - t->pad[2] + tap[2] * t->dilate[2], n, row + p - from,
                   back);
    }
  }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Arguments of one thread: a group of channels of an image. */
typedef struct task {
  const ct_dev_t *dev;
  float *x, *y, *w, *cols;
  int add; /* 1: accumulates the weight gradient */
} task_t;

/* Computes columns `from` to `to` of one image. */
static void run_chunk(const lowered_t *t, const task_t *k, int64_t from, int64_t to)
{
  cpu__matrix_t w = cpu__row_major(k->w, t->depth), cols = cpu__row_major(k->cols, to - from);
  cpu__matrix_t y = cpu__row_major(k->y + from, t->y_pixels);
  cpu__gemm_t g = {.m = t->out, .n = to - from, .k = t->depth, .a = w, .b = cols, .c = y};
  if (t->pass == CT_BWD_DATA)
    g = (cpu__gemm_t){
        .m = t->depth, .n = to - from, .k = t->out, .a = cpu__transposed(w), .b = y, .c = cols};
  if (t->pass == CT_BWD_PARAM)
    g = (cpu__gemm_t){.m = t->out,
                      .n = t->depth,
                      .k = to - from,
                      .a = y,
                      .b = cpu__transposed(cols),
                      .c = w,
                      .add = k->add || from > 0};
  if (t->pass != CT_BWD_DATA) unfold(t, k->x, from, to, k->cols, 0);
  cpu__gemm_blocked(k->dev, &g);
  if (t->pass == CT_BWD_DATA) unfold(t, k->x, from, to, k->cols, 1);
}

static void run_image(const lowered_t *t, const task_t *k)
{
  if (t->pass == CT_BWD_DATA) memset(k->x, 0, (size_t)(t->in * t->x_pixels) * sizeof *k->x);
  for (int64_t from = 0; from < t->y_pixels; from += t->chunk)
    run_chunk(t, k, from, ct_least(from + t->chunk, t->y_pixels));
}

/* Computes one group of channels of images first to end - 1; k.w: the weights of all groups. */
static void run_images(const lowered_t *t, task_t k, int64_t group, int64_t first, int64_t end)
{
  int64_t groups = t->desc.u.conv.groups, x = t->in * t->x_pixels, y = t->out * t->y_pixels;
  task_t all = k;
  k.w += group * t->out * t->depth;
  k.cols += omp_get_thread_num() * t->depth * t->chunk;
  for (int64_t n = first; n < end; n++) {
    k.x = all.x + (n * groups + group) * x;
    k.y = all.y + (n * groups + group) * y;
    k.add = n > first;
    run_image(t, &k);
  }
}

static void add_bias(const lowered_t *t, const float *bias, float *y)
{
  int64_t channels = t->desc.y.dim[1], planes = t->desc.y.dim[0] * channels;
#pragma omp parallel for if (planes * t->y_pixels > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < planes; i++)
    for (int64_t p = 0; p < t->y_pixels; p++)
      y[i * t->y_pixels + p] += bias[i % channels];
}

static void sum_bias(const lowered_t *t, const float *dy, float *db)
{
  int64_t channels = t->desc.y.dim[1];
#pragma omp parallel for if (channels * t->y_pixels > CPU__PARALLEL_MIN)
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int64_t n = 0; n < t->desc.y.dim[0]; n++)
      for (int64_t p = 0; p < t->y_pixels; p++)
        sum += dy[(n * channels + c) * t->y_pixels + p];
    db[c] = (float)sum;
  }
}

static void add_parts(const lowered_t *t, const float *parts, float *w)
{
#pragma omp parallel for if (t->parts * t->weights > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < t->weights; i++) {
    float sum = 0;
    for (int64_t part = 0; part < t->parts; part++)
      sum += parts[part * t->weights + i];
    w[i] = sum;
  }
}

static void lowered_gradient(const lowered_t *t, task_t k, float *copies, float *w)
{
  int64_t groups = t->desc.u.conv.groups, n = t->desc.x.dim[0], apart = t->parts > 1;
#pragma omp parallel for if (t->parts * groups > 1) schedule(static)
  for (int64_t i = 0; i < t->parts * groups; i++) {
    task_t own = k;
    int64_t part = i / groups;
    own.w = apart ? copies + part * t->weights : w;
    run_images(t, own, i % groups, n * part / t->parts, n * (part + 1) / t->parts);
  }
  if (apart) add_parts(t, copies, w);
}

static int lowered_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const lowered_t *t = ready->own;
  const ct_op_desc_t *d = &t->desc;
  int64_t groups = d->u.conv.groups, images = d->x.dim[0] * groups;
  float *scratch = at[CPU__SCRATCH];
  task_t k = {.dev = dev, .x = at[CPU__X], .y = at[CPU__Y], .w = at[CPU__W]};
  if (t->x_copy) {
    k.x = scratch;
    k.y = scratch + t->x_copy;
    if (t->pass != CT_BWD_DATA) cpu__to_floats(dev, ct_shape_count(&d->x), at[CPU__X], k.x);
    if (t->pass != CT_FWD) cpu__to_floats(dev, ct_shape_count(&d->y), at[CPU__Y], k.y);
  }
  k.cols = scratch + t->x_copy + t->y_copy;
  if (t->pass == CT_BWD_PARAM) {
    lowered_gradient(t, k, k.cols + dev->threads * t->depth * t->chunk, at[CPU__W]);
    if (d->u.conv.bias) sum_bias(t, k.y, at[CPU__BIAS]);
    return CT_OK;
  }
#pragma omp parallel for if (images > 1) schedule(static)
  for (int64_t i = 0; i < images; i++)
    run_images(t, k, i % groups, i / groups, i / groups + 1);
  if (t->pass == CT_FWD && d->u.conv.bias) add_bias(t, at[CPU__BIAS], k.y);
  if (t->x_copy && t->pass == CT_FWD)
    cpu__from_floats(dev, ct_shape_count(&d->y), k.y, at[CPU__Y], 0);
  if (t->x_copy && t->pass == CT_BWD_DATA)
    cpu__from_floats(dev, ct_shape_count(&d->x), k.x, at[CPU__X], 0);
  return CT_OK;
}

const cpu__algo_t cpu__conv_lowered = {.name = "lowered",
                                       .second = 1,
                                       .can = lowered_can,
                                       .stored = lowered_stored,
                                       .prepare = lowered_prepare,
                                       .run = lowered_run,
                                       .clear = lowered_clear};
