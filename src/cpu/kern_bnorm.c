/* Batch normalisation, with the semantics of torch.nn.BatchNorm2d, then + x2, then ReLU.
 *
 * A tensor is cut into tiles: one image of one block of channels.  Forward: sums of each tile; from the
 * sums of its tiles, in double and in fixed order, the statistics of each block; y.  Backward: sums of
 * the gradient of each tile; likewise the gradients of the parameters; dx.  So the numbers do not
 * depend on the number of threads.  A few blocks at a time go all the way, so that the second reading
 * of a tile finds it in the cache. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern_loops.h"

/* Of a thread's cache, for tiles between their first and second reading. */
#define CACHE_BYTES (512 << 10)

/* Where channels are innermost an "image" of the tiling is a strip of pixels: no more of them than this,
 * and at least so many pixels each. */
#define STRIPS_MAX 256
#define STRIP_MIN  64

typedef struct bnorm {
  ct_op_t op;
  const cpu__loops_t *loops;
  int64_t blocks, images, together; /* together: blocks worked on at a time */
  int64_t channels;                 /* of a block */
  cpu__rows_t rows;                 /* of a tile; the last tiles may be smaller: rows_of() */
  int64_t all_rows, all_channels;   /* of the tensor, with padding */
  int64_t image_step, group_step;   /* floats */
  int64_t group_blocks;             /* blocks whose channels lie side by side */
} bnorm_t;

/* The scratch memory. */
typedef struct work {
  float *sums;  /* [blocks][images][CPU__BN_SUMS][width] */
  float *coefs; /* [blocks][CPU__BN_COEFS][width] */
} work_t;

static int64_t sums_size(const bnorm_t *k)
{
  return CPU__BN_SUMS * k->loops->width;
}

static int64_t coefs_size(const bnorm_t *k)
{
  return CPU__BN_COEFS * k->loops->width;
}

static work_t work_of(const bnorm_t *k, void *scratch)
{
  work_t w = {.coefs = scratch};
  w.sums = w.coefs + k->blocks * coefs_size(k);
  return w;
}

static float *sums_of(const bnorm_t *k, const work_t *w, int64_t block, int64_t image)
{
  return w->sums + (block * k->images + image) * sums_size(k);
}

static float *coefs_of(const bnorm_t *k, const work_t *w, int64_t block)
{
  return w->coefs + block * coefs_size(k);
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* ---- tiles ---- */

static int64_t tile_at(const bnorm_t *k, int64_t block, int64_t image)
{
  return image * k->image_step + block / k->group_blocks * k->group_step +
         block % k->group_blocks * k->channels;
}

static cpu__rows_t rows_of(const bnorm_t *k, int64_t block, int64_t image)
{
  cpu__rows_t r = k->rows;

  r.rows = least(r.rows, k->all_rows - image * r.rows);
  if (r.stride) r.width = least(r.width, k->all_channels - block * k->channels);
  return r;
}

/* One channel at a time, all vectors along its pixels. */
static void tile_plain(bnorm_t *k, const cpu__view_t *v)
{
  k->loops = cpu__loops(k->op.dev);
  k->channels = k->group_blocks = 1;
  k->blocks = v->groups;
  k->images = v->n;
  k->rows = (cpu__rows_t){1, v->inner, 0};
  k->all_rows = v->n;
  k->all_channels = v->c;
  k->group_step = v->inner;
  k->image_step = v->groups * v->inner;
}

/* A vector's width of channels at a time. */
static void tile_blocked(bnorm_t *k, const cpu__view_t *v)
{
  int64_t width;

  k->loops = cpu__loops_for(k->op.dev, v->lanes);
  k->channels = width = k->loops->width;
  k->group_blocks = v->lanes / width;
  k->blocks = v->groups * k->group_blocks;
  k->images = v->n;
  if (width == v->lanes) {
    k->rows = (cpu__rows_t){1, v->inner * width, 0};
  } else {
    k->rows = (cpu__rows_t){v->inner, width, v->lanes};
  }
  k->all_rows = v->n * k->rows.rows;
  k->all_channels = v->groups * v->lanes;
  k->group_step = v->inner * v->lanes;
  k->image_step = v->groups * k->group_step;
}

/* NHWC, or no space at all: all pixels of all images are rows of C. */
static void tile_innermost(bnorm_t *k, const cpu__view_t *v)
{
  int64_t rows = v->n * v->inner, strip = (rows + STRIPS_MAX - 1) / STRIPS_MAX;

  if (strip < STRIP_MIN) strip = STRIP_MIN;
  k->loops = cpu__loops_for(k->op.dev, v->c);
  k->channels = k->loops->width;
  k->blocks = k->group_blocks = (v->c + k->channels - 1) / k->channels;
  k->images = (rows + strip - 1) / strip;
  k->rows = (cpu__rows_t){strip, k->channels, v->c};
  k->all_rows = rows;
  k->all_channels = v->c;
  k->group_step = 0;
  k->image_step = strip * v->c;
}

/* An output may be stored around the caches if each tile is contiguous and aligned to vectors. */
static int streams(const bnorm_t *k, const float *out)
{
  int width = k->loops->width;

  return k->rows.stride == 0 && k->group_step % width == 0 &&
         cpu__streams(out, ct_shape_bytes(&k->op.desc.x));
}

/* ---- statistics ---- */

/* Elements of a tile in one lane. */
static int64_t lane_count(const cpu__rows_t *r, int width, int lane)
{
  return r->rows * ((r->width - lane + width - 1) / width);
}

/* Elements, their mean, and the sum of their squared deviations from it. */
typedef struct moments {
  double n, mean, m2;
} moments_t;

/* Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983. */
static void merge(moments_t *all, double n, double mean, double m2)
{
  double total = all->n + n, off = mean - all->mean;

  all->mean += off * n / total;
  all->m2 += m2 + off * off * all->n * n / total;
  all->n = total;
}

static void merge_tiles(const bnorm_t *k, const work_t *w, int64_t block, moments_t *all)
{
  int width = k->loops->width;

  for (int64_t image = 0; image < k->images; image++) {
    const float *s = sums_of(k, w, block, image);
    cpu__rows_t r = rows_of(k, block, image);
    for (int lane = 0; lane < width && lane < r.width; lane++) {
      double n = (double)lane_count(&r, width, lane), sum = s[CPU__BN_SUM * width + lane];
      double m2 = s[CPU__BN_DOT * width + lane] - sum * sum / n; /* rounding may make it < 0 */
      merge(&all[lane % k->channels], n, s[CPU__BN_SHIFT * width + lane] + sum / n,
            m2 < 0 ? 0 : m2);
    }
  }
}

static void update_running(const bnorm_t *k, const ct_op_args_t *a, int64_t c, const moments_t *s)
{
  double m = k->op.desc.u.bnorm.momentum, unbiased = s->m2 / (s->n > 1 ? s->n - 1 : 1);
  float *mean = (float *)a->w[2] + c, *var = (float *)a->w[3] + c;

  *mean = (float)((1 - m) * *mean + m * s->mean);
  *var = (float)((1 - m) * *var + m * unbiased);
}

/* What a channel is normalised with.  Backward takes the same float32 numbers as forward, so that it
 * computes the very y whose sign the ReLU saw. */
typedef struct norm {
  float mean, invstd;
} norm_t;

static float invstd_of(const bnorm_t *k, double var)
{
  return (float)(1 / sqrt(var + k->op.desc.u.bnorm.eps));
}

/* Where forward keeps the batch statistics for backward; NULL: they are not needed. */
static norm_t *saved_of(const bnorm_t *k, const ct_op_args_t *a)
{
  int back = k->op.desc.passes & (CT_BWD_DATA | CT_BWD_PARAM);
  return back && k->op.desc.training ? a->saved : NULL;
}

/* What is known before a pass: the batch statistics in backward, in evaluation the running ones. */
static norm_t known_norm(const bnorm_t *k, const ct_op_args_t *a, int64_t c)
{
  const norm_t *saved = saved_of(k, a);
  const float *mean = a->w[2], *var = a->w[3];

  if (k->images == 0) return (norm_t){0, 0}; /* an empty batch: forward kept nothing */
  return saved ? saved[c] : (norm_t){mean[c], invstd_of(k, var[c])};
}

static int64_t channels_end(const bnorm_t *k, int64_t block)
{
  return least(k->op.desc.x.dim[1], (block + 1) * k->channels);
}

/* Sets one coefficient of a channel in all its lanes. */
static void set_coef(const bnorm_t *k, const work_t *w, int64_t c, int which, double value)
{
  float *coefs = coefs_of(k, w, c / k->channels) + which * k->loops->width;

  for (int64_t lane = c % k->channels; lane < k->loops->width; lane += k->channels)
    coefs[lane] = (float)value;
}

static void set_norm(const bnorm_t *k, const ct_op_args_t *a, const work_t *w, int64_t c,
                     norm_t norm)
{
  set_coef(k, w, c, CPU__BN_MEAN, norm.mean);
  set_coef(k, w, c, CPU__BN_SCALE, ((const float *)a->w[0])[c] * norm.invstd);
  set_coef(k, w, c, CPU__BN_BIAS, ((const float *)a->w[1])[c]);
}

/* The coefficients of padding lanes stay 0, and so do they. */
static void clear_coefs(const bnorm_t *k, const work_t *w, int64_t block)
{
  memset(coefs_of(k, w, block), 0, (size_t)coefs_size(k) * sizeof(float));
}

static void batch_norms(const bnorm_t *k, const ct_op_args_t *a, const work_t *w, int64_t block)
{
  moments_t all[CPU__LANES_MAX] = {{0}};
  norm_t *saved = saved_of(k, a);

  merge_tiles(k, w, block, all);
  clear_coefs(k, w, block);
  for (int64_t c = block * k->channels; c < channels_end(k, block); c++) {
    const moments_t *s = &all[c % k->channels];
    norm_t norm = {(float)s->mean, invstd_of(k, s->m2 / s->n)};
    update_running(k, a, c, s);
    set_norm(k, a, w, c, norm);
    if (saved) saved[c] = norm;
  }
}

static void known_norms(const bnorm_t *k, const ct_op_args_t *a, const work_t *w, int64_t block)
{
  clear_coefs(k, w, block);
  for (int64_t c = block * k->channels; c < channels_end(k, block); c++)
    set_norm(k, a, w, c, known_norm(k, a, c));
}

/* The gradients of weight and bias, and what of dx is the same for a whole channel. */
static void gradients(const bnorm_t *k, const ct_op_args_t *a, const work_t *w, int64_t block)
{
  double sum[CPU__LANES_MAX] = {0}, dot[CPU__LANES_MAX] = {0};
  double count = (double)k->op.desc.x.dim[0] * (double)cpu__view(&k->op.desc.x).inner;
  int width = k->loops->width;

  for (int64_t image = 0; image < k->images; image++) {
    const float *s = sums_of(k, w, block, image);
    for (int lane = 0; lane < width; lane++) {
      sum[lane % k->channels] += s[CPU__BN_SUM * width + lane];
      dot[lane % k->channels] += s[CPU__BN_DOT * width + lane];
    }
  }
  for (int64_t c = block * k->channels; c < channels_end(k, block); c++) {
    double invstd = known_norm(k, a, c).invstd, j_sum = sum[c % k->channels];
    double j_dot = dot[c % k->channels] * invstd;
    if (a->pass & CT_BWD_PARAM) {
      ((float *)a->dw[0])[c] = (float)j_dot;
      ((float *)a->dw[1])[c] = (float)j_sum;
    }
    if (k->op.desc.training && count > 0) {
      set_coef(k, w, c, CPU__BN_DY_MEAN, j_sum / count);
      set_coef(k, w, c, CPU__BN_DY_SLOPE, j_dot * invstd / count);
    }
  }
}

/* ---- passes ---- */

/* One run: all threads go through its functions together and share the tiles. */
typedef struct run {
  const bnorm_t *k;
  const ct_op_args_t *a;
  work_t w;
  int64_t from, end; /* blocks */
} run_t;

static void forward_sums(const run_t *r)
{
#pragma omp for collapse(2) schedule(static)
  for (int64_t block = r->from; block < r->end; block++) {
    for (int64_t image = 0; image < r->k->images; image++)
      r->k->loops->bn_sums(rows_of(r->k, block, image),
                           (const float *)r->a->x + tile_at(r->k, block, image),
                           sums_of(r->k, &r->w, block, image));
  }
}

static void forward_norms(const run_t *r)
{
#pragma omp for schedule(static)
  for (int64_t block = r->from; block < r->end; block++) {
    if (r->k->op.desc.training) {
      batch_norms(r->k, r->a, &r->w, block);
    } else {
      known_norms(r->k, r->a, &r->w, block);
    }
  }
}

static void forward_apply(const run_t *r, int stream)
{
  const bnorm_t *k = r->k;
  const float *x = r->a->x, *x2 = k->op.desc.u.bnorm.add ? r->a->x2 : NULL;

#pragma omp for collapse(2) schedule(static) nowait
  for (int64_t block = r->from; block < r->end; block++) {
    for (int64_t image = 0; image < k->images; image++) {
      int64_t at = tile_at(k, block, image);
      cpu__bn_fwd_t f = {.x = x + at, .x2 = x2 ? x2 + at : NULL, .y = (float *)r->a->y + at};
      f.relu = k->op.desc.u.bnorm.relu;
      f.stream = stream;
      k->loops->bn_apply(rows_of(k, block, image), &f, coefs_of(k, &r->w, block));
    }
  }
}

static void forward(const bnorm_t *k, const ct_op_args_t *a)
{
  int stream = a->y != a->x && (!k->op.desc.u.bnorm.add || a->y != a->x2) && streams(k, a->y);

  if (k->op.desc.x.dim[0] == 0) return;
#pragma omp parallel if (ct_shape_padded(&k->op.desc.x) > CPU__PARALLEL_MIN)
  for (int64_t from = 0; from < k->blocks; from += k->together) {
    run_t r = {k, a, work_of(k, a->scratch), from, least(from + k->together, k->blocks)};
    if (k->op.desc.training) forward_sums(&r);
    forward_norms(&r);
    forward_apply(&r, stream);
  }
}

/* The arguments of the backward loops for one tile.  If the masked gradient is wanted as dx2, the
 * first reading stores it and the second finds it there. */
static cpu__bn_bwd_t backward_tile(const run_t *r, int64_t block, int64_t image, int second)
{
  const ct_op_args_t *a = r->a;
  int relu = r->k->op.desc.u.bnorm.relu, add = r->k->op.desc.u.bnorm.add;
  int keeps = add && a->dx2 && (a->pass & CT_BWD_DATA);
  int64_t at = tile_at(r->k, block, image);
  cpu__bn_bwd_t b = {.x = (const float *)a->x + at};

  if (second) b.dx = (float *)a->dx + at;
  if (keeps && second) {
    b.dy = (const float *)a->dx2 + at;
    return b;
  }
  b.dy = (const float *)a->dy + at;
  if (a->dy2) b.dy2 = (const float *)a->dy2 + at;
  if (keeps) b.dx2 = (float *)a->dx2 + at;
  b.mask = !relu ? CPU__MASK_NONE : add ? CPU__MASK_Y : CPU__MASK_X;
  if (b.mask == CPU__MASK_Y) b.y = (const float *)a->y + at;
  return b;
}

static void backward_sums(const run_t *r)
{
#pragma omp for schedule(static)
  for (int64_t block = r->from; block < r->end; block++)
    known_norms(r->k, r->a, &r->w, block);
#pragma omp for collapse(2) schedule(static)
  for (int64_t block = r->from; block < r->end; block++) {
    for (int64_t image = 0; image < r->k->images; image++) {
      cpu__bn_bwd_t b = backward_tile(r, block, image, 0);
      r->k->loops->bn_bwd_sums(rows_of(r->k, block, image), &b, coefs_of(r->k, &r->w, block),
                               sums_of(r->k, &r->w, block, image));
    }
  }
#pragma omp for schedule(static)
  for (int64_t block = r->from; block < r->end; block++)
    gradients(r->k, r->a, &r->w, block);
}

static void backward_apply(const run_t *r, int stream)
{
#pragma omp for collapse(2) schedule(static) nowait
  for (int64_t block = r->from; block < r->end; block++) {
    for (int64_t image = 0; image < r->k->images; image++) {
      cpu__bn_bwd_t b = backward_tile(r, block, image, 1);
      b.stream = stream;
      r->k->loops->bn_bwd_apply(rows_of(r->k, block, image), &b, coefs_of(r->k, &r->w, block));
    }
  }
}

static void backward(const bnorm_t *k, const ct_op_args_t *a)
{
  int data = a->pass & CT_BWD_DATA;
  int stream = data && a->dx != a->dy && a->dx != a->dy2 && streams(k, a->dx);

#pragma omp parallel if (ct_shape_padded(&k->op.desc.x) > CPU__PARALLEL_MIN)
  for (int64_t from = 0; from < k->blocks; from += k->together) {
    run_t r = {k, a, work_of(k, a->scratch), from, least(from + k->together, k->blocks)};
    backward_sums(&r);
    if (data) backward_apply(&r, stream);
  }
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const bnorm_t *k = (const bnorm_t *)op;

  if (a->pass & CT_FWD) forward(k, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) backward(k, a);
  return CT_OK;
}

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const char *reason = NULL;

  (void)dev;
  if (d->x.ndim < 2) reason = "batch normalisation takes N x C x ...";
  if (!ct_shape_same(&d->x, &d->y)) reason = "input and output differ in shape";
  if (!(d->u.bnorm.eps >= 0)) reason = "eps is negative";
  snprintf(why, 128, "%s", reason ? reason : "");
  return reason == NULL;
}

static int prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  bnorm_t *k = (bnorm_t *)op;
  const ct_op_desc_t *d = &op->desc;
  cpu__view_t v = cpu__view(&d->x);
  int back = d->passes & (CT_BWD_DATA | CT_BWD_PARAM);

  (void)like;
  if (d->x.layout == CT_NHWC || (d->x.layout == CT_PLAIN && v.inner == 1)) {
    tile_innermost(k, &v);
  } else if (d->x.layout == CT_PLAIN) {
    tile_plain(k, &v);
  } else {
    tile_blocked(k, &v);
  }
  int64_t block_bytes = (int64_t)ct_shape_bytes(&d->x) / k->blocks * (back ? 2 : 1) + 1;
  k->together = op->dev->threads * CACHE_BYTES / block_bytes + 1;

  info->param_bytes[0] = info->param_bytes[1] = (size_t)v.c * sizeof(float);
  info->scratch = (size_t)(k->blocks * (coefs_size(k) + k->images * sums_size(k))) * sizeof(float);
  if (d->training && back) info->saved = (size_t)v.c * sizeof(norm_t);
  if (back) info->bwd_uses = CT_USES_X;
  if (back && d->u.bnorm.relu && d->u.bnorm.add) info->bwd_uses |= CT_USES_Y;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__bnorm = {
    .size = sizeof(bnorm_t), .supports = supports, .prepare = prepare, .run = run};
