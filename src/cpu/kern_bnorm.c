/* Batch normalisation, with the semantics of torch.nn.BatchNorm2d, then + x2, then ReLU.
 *
 * A tensor is cut into tiles: one image of one block of channels.  Forward: sums of each tile;
 * from the sums of its tiles, in double and in fixed order, the statistics of each block; y.
 * Backward: sums of the gradient of each tile; likewise the gradients of the parameters; dx.  So
 * the numbers do not depend on the number of threads.  If blocks enough are there, each thread
 * goes all the way with one block after the other: nobody waits, and the second reading of a
 * tile finds it in the cache. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern_loops.h"

/* Where channels are innermost an "image" of the tiling is a strip of pixels: no more of them
 * than this, and at least so many pixels each. */
#define STRIPS_MAX 256
#define STRIP_MIN  64

typedef struct bnorm {
  ct_op_t op;
  const cpu__loops_t *loops;
  int64_t blocks, images;
  int64_t channels;               /* of a block */
  cpu__rows_t rows;               /* of a tile; the last tiles may be smaller: rows_of() */
  int64_t all_rows, all_channels; /* of the tensor, with padding */
  int64_t image_step, group_step; /* floats */
  int64_t group_blocks;           /* blocks whose channels lie side by side */
} bnorm_t;

/* One run. */
typedef struct run {
  const bnorm_t *k;
  const ct_op_args_t *a;
  int stream, stream2; /* outputs to store around the caches: y or dx; dx2 */
  float *sums;         /* scratch: [blocks][images][CPU__BN_SUMS][width] */
  float *coefs;        /* scratch: [blocks][CPU__BN_COEFS][width] */
} run_t;

static int64_t sums_size(const bnorm_t *k)
{
  return CPU__BN_SUMS * k->loops->width;
}

static int64_t coefs_size(const bnorm_t *k)
{
  return CPU__BN_COEFS * k->loops->width;
}

static float *sums_of(const run_t *r, int64_t block, int64_t image)
{
  return r->sums + (block * r->k->images + image) * sums_size(r->k);
}

static float *coefs_of(const run_t *r, int64_t block)
{
  return r->coefs + block * coefs_size(r->k);
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

/* Of each lane: elements, their mean, and the sum of their squared deviations from it. */
typedef struct moments {
  double n[CPU__LANES_MAX], mean[CPU__LANES_MAX], m2[CPU__LANES_MAX];
} moments_t;

/* Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983. */
static inline void merge(moments_t *all, int lane, double n, double mean, double m2)
{
  double total = all->n[lane] + n, share = total > 0 ? n / total : 0, off = mean - all->mean[lane];

  all->mean[lane] += off * share;
  all->m2[lane] += m2 + off * off * all->n[lane] * share;
  all->n[lane] = total;
}

static void merge_tile(moments_t *all, cpu__rows_t r, int width, const float *s)
{
  double lower = (double)(r.rows * (r.width / width)), higher = lower + (double)r.rows;
  int64_t rest = r.width % width;

#pragma omp simd
  for (int lane = 0; lane < width; lane++) {
    double n = lane < rest ? higher : lower, sum = s[CPU__BN_SUM * width + lane];
    double off = n > 0 ? sum / n : 0, m2 = s[CPU__BN_DOT * width + lane] - off * sum;
    merge(all, lane, n, s[CPU__BN_SHIFT * width + lane] + off, m2 < 0 ? 0 : m2); /* < 0: rounding */
  }
}

/* The moments of a block's channels, in its first lanes. */
static void merge_tiles(const run_t *r, int64_t block, moments_t *all)
{
  int width = r->k->loops->width;

  memset(all, 0, sizeof *all);
  for (int64_t image = 0; image < r->k->images; image++)
    merge_tile(all, rows_of(r->k, block, image), width, sums_of(r, block, image));
  for (int lane = (int)r->k->channels; lane < width; lane++)
    merge(all, lane % (int)r->k->channels, all->n[lane], all->mean[lane], all->m2[lane]);
}

static void update_running(const run_t *r, int64_t c, double n, double mean, double m2)
{
  double m = r->k->op.desc.u.bnorm.momentum, unbiased = m2 / (n > 1 ? n - 1 : 1);
  float *running_mean = (float *)r->a->w[2] + c, *running_var = (float *)r->a->w[3] + c;

  *running_mean = (float)((1 - m) * *running_mean + m * mean);
  *running_var = (float)((1 - m) * *running_var + m * unbiased);
}

/* What a channel is normalised with.  Backward takes the same float32 numbers as forward, so
 * that it computes the very y whose sign the ReLU saw. */
typedef struct norm {
  float mean, invstd;
} norm_t;

static float invstd_of(const bnorm_t *k, double var)
{
  return (float)(1 / sqrt(var + k->op.desc.u.bnorm.eps));
}

/* Where forward keeps the batch statistics for backward; NULL: they are not needed. */
static norm_t *saved_of(const run_t *r)
{
  int back = r->k->op.desc.passes & (CT_BWD_DATA | CT_BWD_PARAM);
  return back && r->k->op.desc.training ? r->a->saved : NULL;
}

/* What is known before a pass: the batch statistics in backward, in evaluation the running ones. */
static norm_t known_norm(const run_t *r, int64_t c)
{
  const norm_t *saved = saved_of(r);
  const float *mean = r->a->w[2], *var = r->a->w[3];

  if (r->k->images == 0) return (norm_t){0, 0}; /* an empty batch: forward kept nothing */
  return saved ? saved[c] : (norm_t){mean[c], invstd_of(r->k, var[c])};
}

static int64_t channels_end(const bnorm_t *k, int64_t block)
{
  return least(k->op.desc.x.dim[1], (block + 1) * k->channels);
}

/* Sets one coefficient of a channel in all its lanes. */
static void set_coef(const run_t *r, int64_t c, int which, double value)
{
  int64_t channels = r->k->channels, width = r->k->loops->width;
  float *coefs = coefs_of(r, c / channels) + which * width;

  for (int64_t lane = c % channels; lane < width; lane += channels)
    coefs[lane] = (float)value;
}

static void set_norm(const run_t *r, int64_t c, norm_t norm)
{
  set_coef(r, c, CPU__BN_MEAN, norm.mean);
  set_coef(r, c, CPU__BN_SCALE, ((const float *)r->a->w[0])[c] * norm.invstd);
  set_coef(r, c, CPU__BN_BIAS, ((const float *)r->a->w[1])[c]);
}

/* The coefficients of padding lanes stay 0, and so do they. */
static void clear_coefs(const run_t *r, int64_t block)
{
  memset(coefs_of(r, block), 0, (size_t)coefs_size(r->k) * sizeof(float));
}

static void batch_norms(const run_t *r, int64_t block)
{
  moments_t all;
  norm_t *saved = saved_of(r);

  merge_tiles(r, block, &all);
  clear_coefs(r, block);
  for (int64_t c = block * r->k->channels; c < channels_end(r->k, block); c++) {
    int64_t j = c - block * r->k->channels;
    norm_t norm = {(float)all.mean[j], invstd_of(r->k, all.m2[j] / all.n[j])};
    update_running(r, c, all.n[j], all.mean[j], all.m2[j]);
    set_norm(r, c, norm);
    if (saved) saved[c] = norm;
  }
}

static void known_norms(const run_t *r, int64_t block)
{
  clear_coefs(r, block);
  for (int64_t c = block * r->k->channels; c < channels_end(r->k, block); c++)
    set_norm(r, c, known_norm(r, c));
}

/* Sums over the tiles of a block; those of a channel in its first lane. */
static void add_tiles(const run_t *r, int64_t block, double *sum, double *dot)
{
  int width = r->k->loops->width, channels = (int)r->k->channels;

  for (int64_t image = 0; image < r->k->images; image++) {
    const float *s = sums_of(r, block, image);
#pragma omp simd
    for (int lane = 0; lane < width; lane++) {
      sum[lane] += s[CPU__BN_SUM * width + lane];
      dot[lane] += s[CPU__BN_DOT * width + lane];
    }
  }
  for (int lane = channels; lane < width; lane++) {
    sum[lane % channels] += sum[lane];
    dot[lane % channels] += dot[lane];
  }
}

/* The gradients of weight and bias, and what of dx is the same for a whole channel. */
static void gradients(const run_t *r, int64_t block)
{
  double sums[CPU__LANES_MAX] = {0}, dots[CPU__LANES_MAX] = {0};
  const ct_op_desc_t *d = &r->k->op.desc;
  double count = (double)(d->x.dim[0] * cpu__view(&d->x).inner);

  add_tiles(r, block, sums, dots);
  for (int64_t c = block * r->k->channels; c < channels_end(r->k, block); c++) {
    int64_t j = c - block * r->k->channels;
    double invstd = known_norm(r, c).invstd, dot = dots[j] * invstd;
    if (r->a->pass & CT_BWD_PARAM) {
      ((float *)r->a->dw[0])[c] = (float)dot;
      ((float *)r->a->dw[1])[c] = (float)sums[j];
    }
    if (d->training && count > 0) {
      set_coef(r, c, CPU__BN_DY_MEAN, sums[j] / count);
      set_coef(r, c, CPU__BN_DY_SLOPE, dot * invstd / count);
    }
  }
}

/* ---- passes ---- */

/* Both directions have this form; what is NULL is left out. */
typedef struct pass {
  void (*begin)(const run_t *r, int64_t block);
  void (*reads)(const run_t *r, int64_t block, int64_t image);
  void (*between)(const run_t *r, int64_t block);
  void (*writes)(const run_t *r, int64_t block, int64_t image);
} pass_t;

static void go_by_block(const run_t *r, const pass_t *p, int64_t block)
{
  if (p->begin) p->begin(r, block);
  for (int64_t image = 0; p->reads && image < r->k->images; image++)
    p->reads(r, block, image);
  if (p->between) p->between(r, block);
  for (int64_t image = 0; p->writes && image < r->k->images; image++)
    p->writes(r, block, image);
}

/* All threads, which share out the tiles. */
static void go_by_tile(const run_t *r, const pass_t *p)
{
  int64_t blocks = r->k->blocks, images = r->k->images, tiles = blocks * images;

#pragma omp for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    if (p->begin) p->begin(r, block);
  }
#pragma omp for schedule(static)
  for (int64_t i = 0; i < (p->reads ? tiles : 0); i++)
    p->reads(r, i / images, i % images);
#pragma omp for schedule(static)
  for (int64_t block = 0; block < blocks; block++) {
    if (p->between) p->between(r, block);
  }
#pragma omp for schedule(static)
  for (int64_t i = 0; i < (p->writes ? tiles : 0); i++)
    p->writes(r, i / images, i % images);
}

static void go(const run_t *r, const pass_t *p)
{
  int64_t blocks = r->k->blocks, threads = r->k->op.dev->threads;
  int64_t rounds = (blocks + threads - 1) / threads;

  if (ct_shape_padded(&r->k->op.desc.x) <= CPU__PARALLEL_MIN) {
    for (int64_t block = 0; block < blocks; block++)
      go_by_block(r, p, block);
  } else if (10 * blocks >= 9 * rounds * threads) { /* by blocks, few threads stay idle */
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++)
      go_by_block(r, p, block);
  } else {
#pragma omp parallel
    go_by_tile(r, p);
  }
}

static void forward_sums(const run_t *r, int64_t block, int64_t image)
{
  r->k->loops->bn_sums(rows_of(r->k, block, image),
                       (const float *)r->a->x + tile_at(r->k, block, image),
                       sums_of(r, block, image));
}

static void forward_write(const run_t *r, int64_t block, int64_t image)
{
  const ct_op_desc_t *d = &r->k->op.desc;
  int64_t at = tile_at(r->k, block, image);
  cpu__bn_fwd_t f = {.x = (const float *)r->a->x + at, .y = (float *)r->a->y + at};

  if (d->u.bnorm.add) f.x2 = (const float *)r->a->x2 + at;
  f.relu = d->u.bnorm.relu;
  f.stream = r->stream;
  r->k->loops->bn_apply(rows_of(r->k, block, image), &f, coefs_of(r, block));
}

static cpu__bn_bwd_t backward_tile(const run_t *r, int64_t block, int64_t image)
{
  const ct_op_args_t *a = r->a;
  int relu = r->k->op.desc.u.bnorm.relu, add = r->k->op.desc.u.bnorm.add;
  int64_t at = tile_at(r->k, block, image);
  cpu__bn_bwd_t b = {.x = (const float *)a->x + at, .dy = (const float *)a->dy + at};

  if (a->dy2) b.dy2 = (const float *)a->dy2 + at;
  b.mask = !relu ? CPU__MASK_NONE : add ? CPU__MASK_Y : CPU__MASK_X;
  if (b.mask == CPU__MASK_Y) b.y = (const float *)a->y + at;
  return b;
}

static void backward_sums(const run_t *r, int64_t block, int64_t image)
{
  cpu__bn_bwd_t b = backward_tile(r, block, image);

  r->k->loops->bn_bwd_sums(rows_of(r->k, block, image), &b, coefs_of(r, block),
                           sums_of(r, block, image));
}

static void backward_write(const run_t *r, int64_t block, int64_t image)
{
  cpu__bn_bwd_t b = backward_tile(r, block, image);
  int64_t at = tile_at(r->k, block, image);

  b.dx = (float *)r->a->dx + at;
  if (r->k->op.desc.u.bnorm.add && r->a->dx2) b.dx2 = (float *)r->a->dx2 + at;
  b.stream = r->stream;
  b.stream2 = r->stream2;
  r->k->loops->bn_bwd_apply(rows_of(r->k, block, image), &b, coefs_of(r, block));
}

static void forward(const run_t *r)
{
  static const pass_t training = {NULL, forward_sums, batch_norms, forward_write};
  static const pass_t evaluation = {known_norms, NULL, NULL, forward_write};

  if (r->k->images == 0) return;
  go(r, r->k->op.desc.training ? &training : &evaluation);
}

static void backward(const run_t *r)
{
  static const pass_t all = {known_norms, backward_sums, gradients, backward_write};
  static const pass_t data = {known_norms, NULL, NULL, backward_write};
  static const pass_t param = {known_norms, backward_sums, gradients, NULL};

  if (!(r->a->pass & CT_BWD_DATA)) {
    go(r, &param);
  } else if (r->k->op.desc.training || (r->a->pass & CT_BWD_PARAM)) {
    go(r, &all);
  } else {
    go(r, &data);
  }
}

/* An output that shares memory with an input is in the cache already. */
static int streams_beside(const bnorm_t *k, const void *out, const void *in, const void *in2)
{
  return out != in && out != in2 && streams(k, out);
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const bnorm_t *k = (const bnorm_t *)op;
  run_t r = {.k = k, .a = a, .coefs = a->scratch};

  r.sums = r.coefs + k->blocks * coefs_size(k);
  if (a->pass & CT_FWD) {
    r.stream = streams_beside(k, a->y, a->x, a->x2);
    forward(&r);
  }
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) {
    r.stream = streams_beside(k, a->dx, a->dy, a->dy2);
    r.stream2 = streams_beside(k, a->dx2, a->dy, a->dy2);
    backward(&r);
  }
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
