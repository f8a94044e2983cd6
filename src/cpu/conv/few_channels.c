/* Convolution with few channels, stride 1, kernel 3x3 or 5x5: all but the loops, which are in
 * conv/few_channels_loops.h.
 *
 * The batch is cut into one chunk per thread.  Each chunk sums its own gradient of the weights; the
 * gradients of the chunks are added in order, so that the result is reproducible. */
#include "cpu/conv/conv.h"
#include "cpu/conv/few_channels_loops.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/tile/tile.h"
#include <string.h>

typedef struct conv {
  ct_op_desc_t desc;
  int pass, threads;
  int x_lanes, y_lanes;                      /* contiguous channels in x and y: 1, 8 or 16 */
  const cpu__few_loops_t *x_loops, *y_loops; /* x_loops: NULL if x is plain */
  int64_t x_groups, y_groups;                /* groups of x_lanes or y_lanes channels */
  int64_t rows, cols;                        /* size of x with padding */
  /* sizes in floats: */
  int64_t weights;   /* a chunk's own sums of the weight gradient */
  int64_t image;     /* padded copy of one image of x */
  int64_t shared;    /* workspace shared by all threads */
  int64_t workspace; /* cpu__few_task_t.workspace */
  int64_t strip;     /* stride between strips, whole vectors: cpu__few_strips_t */
  const cpu__tiles_t *tiles;
} conv_t;

/* Tensors of a run, by role. */
typedef void *const *tensors_t;

enum {
  KERNEL_MAX = 5,
  CHANNELS_MAX = 32,
  IMAGE_MAX = 1 << 16 /* in floats: fits an L2 cache */
};

static const cpu__few_loops_t *loops_for(const ct_dev_t *dev, int lanes)
{
#ifdef __x86_64__
  if (dev->isa == CPU__AVX512 && lanes == 16) return &cpu__few_loops_avx512_16;
  if (dev->isa == CPU__AVX512 && lanes == 8) return &cpu__few_loops_avx512_8;
  if (dev->isa == CPU__AVX2 && lanes == 8) return &cpu__few_loops_avx2_8;
#elif CPU__NEON
  (void)dev;
  if (lanes == 8) return &cpu__few_loops_neon_8;
#else
  (void)dev;
  (void)lanes;
#endif
  return NULL;
}

static int64_t groups_of(int64_t channels, int lanes)
{
  return (channels + lanes - 1) / lanes;
}

static int y_lanes(const ct_dev_t *dev, const ct_op_desc_t *d)
{
  int64_t oc = d->y.dim[1];
  return dev->isa == CPU__AVX512 && 16 * groups_of(oc, 16) == 8 * groups_of(oc, 8) ? 16 : 8;
}

static int fits(const ct_op_desc_t *d)
{
  int k = d->u.conv.kernel[0], fit = d->x.ndim == 4;
  for (int i = 0; i < 2; i++)
    fit &= d->u.conv.kernel[i] == k && d->u.conv.stride[i] == 1 && d->u.conv.dilate[i] == 1;
  fit &= (k == 3 || k == 5) && d->u.conv.groups == 1;
  fit &= d->x.dim[1] <= CHANNELS_MAX && d->y.dim[1] <= CHANNELS_MAX;
  fit &= 16 * groups_of(d->x.dim[1], 16) * (d->x.dim[2] + k) * (d->x.dim[3] + k) <= IMAGE_MAX;
  return fit;
}

static int few_channels_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  int data = job->pass == CT_BWD_DATA, own = y_lanes(job->dev, d);
  int lanes = data ? cpu__lanes(job->at.x) : own, vector = cpu__lanes(cpu__blocked(job->dev));
  if (d->x.dtype != CT_F32) return cpu__refuse(why, "for float32");
  if (!fits(d))
    return cpu__refuse(why,
                       "for few channels, small images, dense kernels of 3x3 or 5x5, stride 1");
  if (job->at.x == CT_NHWC || job->at.y == CT_NHWC || cpu__lanes(job->at.y) != own)
    return cpu__refuse(why, "for blocks that fit the channels of y, and of x or a plain x");
  if (!loops_for(job->dev, own) || !loops_for(job->dev, lanes))
    return cpu__refuse(why, "no loops for this processor and these layouts");
  double read = (double)(data ? d->y.dim[1] : d->x.dim[1]);
  double written = (double)(lanes * groups_of(data ? d->x.dim[1] : d->y.dim[1], lanes));
  double taps = (double)d->u.conv.kernel[0] * d->u.conv.kernel[1];
  double pixels = (double)d->y.dim[0] * (double)d->y.dim[2] * (double)d->y.dim[3];
  *cost = (cpu__cost_t){pixels * taps * read * written / (lanes == vector ? 1 : 0.9), 0};
  return 1;
}

/* Returns the format of the weights: [oc / lanes][ic][kernel][kernel][lanes]. */
static int few_channels_stored(const cpu__job_t *job, cpu__md_t **out)
{
  const ct_op_desc_t *d = job->desc;
  const int64_t dims[4] = {d->y.dim[1], d->x.dim[1], d->u.conv.kernel[0], d->u.conv.kernel[1]};
  return cpu__md_new(4, dims, y_lanes(job->dev, d) == 16 ? CPU__O16 : CPU__O8, out);
}

/* Sets the workspace of backward data: transposed weights, shared by all threads, and two rows of
 * strips per thread. */
static void set_strips(conv_t *t, const ct_dev_t *dev)
{
  const ct_op_desc_t *d = &t->desc;
  t->tiles = cpu__tiles(dev);
  int64_t kernel = d->u.conv.kernel[0], floats = kernel * ct_least(t->x_lanes, d->x.dim[1]);
  t->strip = groups_of(floats, t->tiles->width) * t->tiles->width;
  t->image = 2 * d->y.dim[3] * t->strip + 16;
  t->shared = t->x_groups * kernel * t->y_groups * t->y_lanes * t->strip;
}

static int few_channels_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  int64_t taps = (int64_t)d->u.conv.kernel[0] * d->u.conv.kernel[1];
  conv_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  if (!t) return CT_ERR_NOMEM;
  t->desc = *d;
  t->pass = job->pass;
  t->threads = job->dev->threads;
  t->x_lanes = cpu__lanes(job->at.x);
  t->y_lanes = cpu__lanes(job->at.y);
  t->x_loops = loops_for(job->dev, t->x_lanes);
  t->y_loops = loops_for(job->dev, t->y_lanes);
  t->x_groups = groups_of(d->x.dim[1], t->x_lanes);
  t->y_groups = groups_of(d->y.dim[1], t->y_lanes);
  t->rows = d->x.dim[2] + 2 * d->u.conv.pad[0];
  t->cols = d->x.dim[3] + 2 * d->u.conv.pad[1];
  t->weights = t->y_groups * t->y_lanes * d->x.dim[1] * taps;
  t->image = (t->x_groups * t->rows * t->cols * t->x_lanes + 15) & ~(int64_t)15;
  t->shared = (t->y_groups * t->y_lanes + 15) & ~(int64_t)15;
  if (job->pass == CT_BWD_DATA) set_strips(t, job->dev);
  if (job->pass == CT_BWD_PARAM) t->workspace = cpu__few_workspace(d->y.dim[2], d->y.dim[3]);
  int64_t chunk = t->image + t->weights + t->y_groups * t->y_lanes + t->workspace;
  out->scratch = (size_t)(t->shared + t->threads * chunk) * sizeof(float);
  return few_channels_stored(job, &out->w);
}

/* ---- shared by the passes ---- */

/* One chunk of the batch and its workspace. */
typedef struct chunk {
  int64_t first, end; /* range of images */
  float *shared, *image, *dw, *db, *workspace;
} chunk_t;

static chunk_t chunk_of(const conv_t *t, tensors_t at, int k)
{
  int64_t n = t->desc.x.dim[0], bias = t->y_groups * t->y_lanes;
  chunk_t c = {
      .first = n * k / t->threads, .end = n * (k + 1) / t->threads, .shared = at[CPU__SCRATCH]};
  c.image = c.shared + t->shared + k * (t->image + t->weights + bias + t->workspace);
  c.dw = c.image + t->image;
  c.db = c.dw + t->weights;
  c.workspace = c.db + bias;
  return c;
}

/* Copies the pixels of one image between x and the padded copy. */
static void copy_inner(const conv_t *t, float *x, float *padded, int to_padded)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t h = d->x.dim[2], w = d->x.dim[3], top = d->u.conv.pad[0], left = d->u.conv.pad[1];
  for (int64_t g = 0; g < t->x_groups; g++)
    for (int64_t i = 0; i < h; i++) {
      float *outer = x + (g * h + i) * w * t->x_lanes;
      float *inner = padded + ((g * t->rows + i + top) * t->cols + left) * t->x_lanes;
      memcpy(to_padded ? inner : outer, to_padded ? outer : inner,
             (size_t)(w * t->x_lanes) * sizeof(float));
    }
}

/* Returns the number of channels of x in group g. */
static int channels_of(const conv_t *t, int64_t g)
{
  return (int)ct_least(t->x_lanes, t->desc.x.dim[1] - g * t->x_lanes);
}

/* Returns the number of channels of y in group g. */
static int outs_of(const conv_t *t, int64_t g)
{
  return (int)ct_least(t->y_lanes, t->desc.y.dim[1] - g * t->y_lanes);
}

static int is_padded(const conv_t *t)
{
  return t->desc.u.conv.pad[0] || t->desc.u.conv.pad[1];
}

static int64_t x_image(const conv_t *t)
{
  return t->x_groups * t->x_lanes * t->desc.x.dim[2] * t->desc.x.dim[3];
}

static int64_t y_group(const conv_t *t)
{
  return t->y_lanes * t->desc.y.dim[2] * t->desc.y.dim[3];
}

/* Returns image n of x with zero padding: a copy, whose borders are zero already. */
static cpu__few_image_t padded_x(const conv_t *t, tensors_t at, int64_t n, const chunk_t *c)
{
  float *x = (float *)at[CPU__X] + n * x_image(t);
  if (is_padded(t)) copy_inner(t, x, c->image, 1);
  return (cpu__few_image_t){.data = is_padded(t) ? c->image : x,
                            .group = t->rows * t->cols * t->x_lanes,
                            .width = t->cols,
                            .step = t->x_lanes,
                            .channels = (int)t->desc.x.dim[1]};
}

static void few_channels_clear(float *p, int64_t count)
{
  memset(p, 0, (size_t)count * sizeof *p);
}

/* ---- passes ---- */

static void few_channels_forward(const conv_t *t, tensors_t at, const chunk_t *c)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t weights = t->weights / t->y_groups;
  few_channels_clear(c->image, t->image);
  for (int64_t n = c->first; n < c->end; n++) {
    cpu__few_task_t one = {.in = padded_x(t, at, n, c),
                           .kernel = d->u.conv.kernel[0],
                           .rows = d->y.dim[2],
                           .cols = d->y.dim[3],
                           .relu = d->u.conv.relu};
    for (int64_t g = 0; g < t->y_groups; g++) {
      one.outs = outs_of(t, g);
      one.w = (float *)at[CPU__W] + g * weights;
      one.bias = c->shared + g * t->y_lanes;
      one.out = (float *)at[CPU__Y] + (n * t->y_groups + g) * y_group(t);
      t->y_loops->correlate(&one);
    }
  }
}

/* Computes all strips of row i of x, counted with padding: a GEMM of the pixels in the rows of y
 * that the kernel reaches, and the weights. */
static void make_strips(const conv_t *t, const float *dy, const float *w, int64_t i, float *to)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t a_at[KERNEL_MAX * CHANNELS_MAX / 8], b_at[KERNEL_MAX * CHANNELS_MAX / 8];
  int64_t cols = d->y.dim[3], width = t->tiles->width, vecs = t->strip / width;
  cpu__tile_t job = {.a_at = a_at,
                     .b_at = b_at,
                     .k = t->y_lanes,
                     .a_row = t->y_lanes,
                     .a_k = 1,
                     .b_k = t->strip,
                     .b_vec = width,
                     .c_row = t->strip,
                     .c_vec = width,
                     .lanes = (int)width};
  for (int64_t u = 0; u < d->u.conv.kernel[0]; u++)
    for (int64_t g = 0; g < t->y_groups && i >= u && i - u < d->y.dim[2]; g++) {
      a_at[job.taps] = g * y_group(t) + (i - u) * cols * t->y_lanes;
      b_at[job.taps++] = (u * t->y_groups + g) * t->y_lanes * t->strip;
    }
  for (int64_t v = 0, wide; v < vecs; v += wide) {
    wide = ct_least(vecs > 4 ? 3 : vecs, vecs - v);
    int64_t most = groups_of(cols, (int)groups_of(cols, t->tiles->rows[wide]));
    for (int64_t j = 0; j < cols; j += most)
      t->tiles->run[wide][ct_least(most, cols - j)](&job, dy + j * t->y_lanes, w + v * width,
                                                    to + j * t->strip + v * width);
  }
}

/* Computes the data gradient.  Sums the strips of a row after the strips of the next row are made,
 * since loads that straddle recent vector stores are slow (no store forwarding). */
static void data(const conv_t *t, tensors_t at, const chunk_t *c)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t h = d->x.dim[2], w = d->x.dim[3], top = d->u.conv.pad[0], row = d->y.dim[3] * t->strip;
  for (int64_t n = c->first; n < c->end; n++)
    for (int64_t g = 0; g < t->x_groups; g++) {
      const float *weights = c->shared + g * t->shared / t->x_groups;
      const float *dy = (const float *)at[CPU__Y] + n * t->y_groups * y_group(t);
      float *dx = (float *)at[CPU__X] + n * x_image(t) + g * h * w * t->x_lanes;
      cpu__few_strips_t strips = {.strip = t->strip,
                                  .count = d->y.dim[3],
                                  .kernel = d->u.conv.kernel[1],
                                  .channels = channels_of(t, g),
                                  .left = d->u.conv.pad[1],
                                  .cols = w};
      for (int64_t i = 0; i <= h; i++) {
        if (i < h) make_strips(t, dy, weights, i + top, c->image + i % 2 * row);
        strips.data = c->image + (i + 1) % 2 * row;
        if (i > 0) t->x_loops->overlap(&strips, dx + (i - 1) * w * t->x_lanes);
      }
    }
}

static void few_channels_gradient(const conv_t *t, tensors_t at, const chunk_t *c)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t weights = t->weights / t->y_groups;
  few_channels_clear(c->image, t->image);
  few_channels_clear(c->dw, t->weights);
  few_channels_clear(c->db, t->y_groups * t->y_lanes);
  for (int64_t n = c->first; n < c->end; n++) {
    cpu__few_task_t one = {.in = padded_x(t, at, n, c),
                           .kernel = d->u.conv.kernel[0],
                           .rows = d->y.dim[2],
                           .cols = d->y.dim[3],
                           .workspace = c->workspace};
    for (int64_t g = 0; g < t->y_groups; g++) {
      one.outs = outs_of(t, g);
      one.w = c->dw + g * weights;
      one.bias = c->db + g * t->y_lanes;
      one.out = (float *)at[CPU__Y] + (n * t->y_groups + g) * y_group(t);
      t->y_loops->gradient(&one);
    }
  }
}

/* ---- before and after the chunks ---- */

/* Copies the padded bias to the shared workspace. */
static void pad_bias(const conv_t *t, tensors_t at)
{
  float *to = at[CPU__SCRATCH];
  few_channels_clear(to, t->y_groups * t->y_lanes);
  if (t->desc.u.conv.bias) memcpy(to, at[CPU__BIAS], (size_t)t->desc.y.dim[1] * sizeof *to);
}

/* Copies the weights as [ic / lanes][kernel][oc][strip] to the shared workspace. */
static void transpose_weights(const conv_t *t, tensors_t at)
{
  const ct_op_desc_t *d = &t->desc;
  int64_t ic = d->x.dim[1], oc = d->y.dim[1], padded = t->y_groups * t->y_lanes;
  int64_t k = d->u.conv.kernel[0];
  const float *w = at[CPU__W];
  float *to = at[CPU__SCRATCH];
  few_channels_clear(to, t->shared);
  for (int64_t c = 0; c < ic; c++)
    for (int64_t o = 0; o < oc; o++)
      for (int64_t tap = 0; tap < k * k; tap++) {
        int64_t g = c / t->x_lanes, row = (g * k + tap / k) * padded + o;
        to[row * t->strip + tap % k * channels_of(t, g) + c % t->x_lanes] =
            w[((o / t->y_lanes * ic + c) * k * k + tap) * t->y_lanes + o % t->y_lanes];
      }
}

static void add_chunks(const conv_t *t, tensors_t at)
{
  float *dw = at[CPU__W], *db = at[CPU__BIAS];
  int64_t biases = t->desc.u.conv.bias ? t->desc.y.dim[1] : 0;
  few_channels_clear(dw, t->weights);
  if (biases) few_channels_clear(db, biases);
  for (int k = 0; k < t->threads; k++) {
    chunk_t c = chunk_of(t, at, k);
    for (int64_t i = 0; i < t->weights; i++)
      dw[i] += c.dw[i];
    for (int64_t i = 0; i < biases; i++)
      db[i] += c.db[i];
  }
}

static void run_chunks(const conv_t *t, tensors_t at,
                       void (*pass)(const conv_t *, tensors_t, const chunk_t *))
{
#pragma omp parallel for schedule(static, 1)
  for (int k = 0; k < t->threads; k++) {
    chunk_t c = chunk_of(t, at, k);
    pass(t, at, &c);
  }
}

static int few_channels_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const conv_t *t = ready->own;
  (void)dev;
  if (t->pass == CT_FWD) {
    pad_bias(t, at);
    run_chunks(t, at, few_channels_forward);
  } else if (t->pass == CT_BWD_DATA) {
    transpose_weights(t, at);
    run_chunks(t, at, data);
  } else {
    run_chunks(t, at, few_channels_gradient);
    add_chunks(t, at);
  }
  return CT_OK;
}

static void clear_own(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

const cpu__algo_t cpu__conv_by_hand = {.name = "by hand",
                                       .as_it_lies = 1,
                                       .second = 1,
                                       .relu = 1,
                                       .can = few_channels_can,
                                       .stored = few_channels_stored,
                                       .prepare = few_channels_prepare,
                                       .run = few_channels_run,
                                       .clear = clear_own};
