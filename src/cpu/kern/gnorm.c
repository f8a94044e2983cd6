/* Group normalisation, with the semantics of torch.nn.GroupNorm.
 *
 * A sample is cut into pieces: a vector of channels, or in the plain layout one channel, so that
 * the loops of batch normalisation can be used.  The forward pass computes the sums of each piece,
 * then mean and 1 / std of each group from the sums of its channels, in double and in fixed order,
 * and then y.  The backward pass computes the sums of the gradient of each piece, from them the
 * parameter gradients and the terms of dx for each group, and then dx.  So the results do not
 * depend on the number of threads. */
#include <math.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

typedef struct gnorm_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  int64_t samples, channels, groups, space;
  int64_t pieces;       /* pieces per sample */
  int64_t width;        /* channels per piece; 1: vectors run along the pixels of a channel */
  int64_t lanes;        /* contiguous channels in memory */
  int64_t block_pieces; /* pieces of `lanes` channels */
} gnorm_op_t;

/* One run.  sums: [samples][pieces][CPU__BN_SUMS][vector]; stats: [samples][groups] mean and 1 /
 * std; slopes: [samples][groups] mean of w dy, and its regression slope on x - mean. */
typedef struct gnorm_run {
  const gnorm_op_t *k;
  const ct_op_args_t *a;
  float *sums, *stats, *slopes;
} gnorm_run_t;

/* ---- pieces ---- */

static int64_t sums_size(const gnorm_op_t *k)
{
  return CPU__BN_SUMS * k->loops->width;
}

static float *sums_of(const gnorm_run_t *r, int64_t n, int64_t piece)
{
  return r->sums + (n * r->k->pieces + piece) * sums_size(r->k);
}

static int64_t first_channel(const gnorm_op_t *k, int64_t piece)
{
  return piece / k->block_pieces * k->lanes + piece % k->block_pieces * k->width;
}

/* Returns the number of lanes of the piece's vectors, including padding. */
static int64_t lanes_of(const gnorm_op_t *k, int64_t piece)
{
  int64_t rest = k->lanes - piece % k->block_pieces * k->width;
  return rest < k->width ? rest : k->width;
}

static cpu__rows_t rows_of(const gnorm_op_t *k, int64_t piece)
{
  int64_t vector = k->loops->width;

  if (k->lanes == 1 && k->width == 1)
    return (cpu__rows_t){k->space / vector, vector, vector, k->space % vector, vector};
  return (cpu__rows_t){k->space, lanes_of(k, piece), k->lanes, 0, vector};
}

static void *gnorm_at(const gnorm_op_t *k, const void *tensor, int64_t n, int64_t piece)
{
  int64_t blocks = k->pieces / k->block_pieces, block = piece / k->block_pieces;
  int64_t i = (n * blocks + block) * k->space * k->lanes + piece % k->block_pieces * k->width;
  return cpu__at(tensor, i, k->head.desc.x.dtype);
}

/* ---- sums ---- */

/* The lanes of a channel in the sums of its piece: one lane, or in the plain layout all lanes. */
typedef struct channel {
  int64_t first, lanes;
} channel_t;

static channel_t channel_of(const gnorm_op_t *k, int64_t c, int64_t *piece)
{
  int64_t lane = c % k->lanes;
  *piece = c / k->lanes * k->block_pieces + lane / k->width;
  return k->width == 1 && k->lanes == 1 ? (channel_t){0, k->loops->width}
                                        : (channel_t){lane % k->width, 1};
}

/* Returns the number of elements summed in lane j. */
static double seen_by(const gnorm_op_t *k, const channel_t *c, int64_t j)
{
  if (c->lanes == 1) return (double)k->space;
  return (double)(k->space / c->lanes + (j < k->space % c->lanes));
}

/* Merges a channel into the mean and the sum of squared deviations of `count` elements (Chan,
 * Golub, LeVeque 1983). */
static void gnorm_merge(const gnorm_run_t *r, int64_t n, int64_t channel, double *count,
                        double *mean, double *squares)
{
  int64_t piece, width = r->k->loops->width;
  channel_t c = channel_of(r->k, channel, &piece);
  const float *sums = sums_of(r, n, piece);

  for (int64_t j = c.first; j < c.first + c.lanes; j++) {
    double m = seen_by(r->k, &c, j), sum = sums[CPU__BN_SUM * width + j];
    if (m == 0) continue;
    double own = sums[CPU__BN_SHIFT * width + j] + sum / m, off = own - *mean, all = *count + m;
    *squares += sums[CPU__BN_DOT * width + j] - sum * sum / m + off * off * *count * m / all;
    *mean += off * m / all;
    *count = all;
  }
}

/* Returns the sum `which` of a channel. */
static double gnorm_total(const gnorm_run_t *r, int64_t n, int64_t channel, int which)
{
  int64_t piece;
  channel_t c = channel_of(r->k, channel, &piece);
  const float *sums = sums_of(r, n, piece) + which * r->k->loops->width;
  double sum = 0;

  for (int64_t j = c.first; j < c.first + c.lanes; j++)
    sum += sums[j];
  return sum;
}

/* ---- coefficients of a channel ---- */

static float weight_of(const gnorm_run_t *r, int64_t c)
{
  return r->k->head.desc.u.gnorm.affine ? ((const float *)r->a->w[0])[c] : 1;
}

static float bias_of(const gnorm_run_t *r, int64_t c)
{
  return r->k->head.desc.u.gnorm.affine ? ((const float *)r->a->w[1])[c] : 0;
}

/* Returns the weight by which the means of the products w * dy are divided: the loop for dx
 * subtracts means from the gradient before it multiplies by the weight.  A weight near 0 is
 * replaced: its contribution to dx is negligible in any case. */
static float divisor(float weight)
{
  const float least = 1e-18f;
  return fabsf(weight) < least ? copysignf(least, weight) : weight;
}

/* Computes the coefficients of the lanes of a piece.  The coefficients of padding lanes are 0, so
 * padding stays 0. */
static void coefs_of(const gnorm_run_t *r, int64_t n, int64_t piece, float *coefs)
{
  const gnorm_op_t *k = r->k;
  int64_t width = k->loops->width, first = first_channel(k, piece), apart = k->channels / k->groups;

  memset(coefs, 0, (size_t)(CPU__BN_COEFS * width) * sizeof *coefs);
  for (int64_t j = 0; j < width; j++) {
    int64_t c = k->lanes == 1 ? first : first + j;
    if (c >= k->channels || (k->lanes > 1 && j >= lanes_of(k, piece))) break;
    const float *stats = r->stats + 2 * (n * k->groups + c / apart);
    coefs[CPU__BN_MEAN * width + j] = stats[0];
    coefs[CPU__BN_SCALE * width + j] = weight_of(r, c) * stats[1];
    coefs[CPU__BN_BIAS * width + j] = bias_of(r, c);
    if (!r->slopes) continue;
    const float *slopes = r->slopes + 2 * (n * k->groups + c / apart);
    float weight = divisor(weight_of(r, c));
    coefs[CPU__BN_SCALE * width + j] = weight * stats[1];
    coefs[CPU__BN_DY_MEAN * width + j] = slopes[0] / weight;
    coefs[CPU__BN_DY_SLOPE * width + j] = slopes[1] / weight;
  }
}

/* ---- forward ---- */

static void group_stats(const gnorm_run_t *r, int64_t n, int64_t g)
{
  const gnorm_op_t *k = r->k;
  int64_t apart = k->channels / k->groups;
  double count = 0, mean = 0, squares = 0;
  float *stats = r->stats + 2 * (n * k->groups + g);

  for (int64_t c = g * apart; c < (g + 1) * apart; c++)
    gnorm_merge(r, n, c, &count, &mean, &squares);
  stats[0] = (float)mean;
  stats[1] = (float)(1 / sqrt((squares < 0 ? 0 : squares) / count + k->head.desc.u.gnorm.eps));
}

static void apply(const gnorm_run_t *r, int64_t n, int64_t piece)
{
  float coefs[CPU__BN_COEFS * CPU__LANES_MAX];
  cpu__bn_fwd_t f = {.x = gnorm_at(r->k, r->a->x, n, piece),
                     .y = gnorm_at(r->k, r->a->y, n, piece)};

  coefs_of(r, n, piece, coefs);
  r->k->loops->bn_apply(rows_of(r->k, piece), &f, coefs);
}

static void gnorm_forward(const gnorm_run_t *r)
{
  const gnorm_op_t *k = r->k;
  int64_t pieces = k->pieces, all = k->samples * pieces;

#pragma omp parallel if (cpu__is_parallel(&k->head.desc.x))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < all; i++)
      k->loops->bn_sums(rows_of(k, i % pieces), gnorm_at(k, r->a->x, i / pieces, i % pieces),
                        sums_of(r, i / pieces, i % pieces));
#pragma omp for schedule(static)
    for (int64_t i = 0; i < k->samples * k->groups; i++)
      group_stats(r, i / k->groups, i % k->groups);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < all; i++)
      apply(r, i / pieces, i % pieces);
  }
}

/* ---- backward ---- */

static cpu__bn_bwd_t gradient_of(const gnorm_run_t *r, int64_t n, int64_t piece)
{
  return (cpu__bn_bwd_t){.x = gnorm_at(r->k, r->a->x, n, piece),
                         .dy = gnorm_at(r->k, r->a->dy, n, piece),
                         .dy2 = gnorm_at(r->k, r->a->dy2, n, piece),
                         .mask = CPU__MASK_NONE};
}

static void gradient_sums(const gnorm_run_t *r, int64_t n, int64_t piece)
{
  float coefs[CPU__BN_COEFS * CPU__LANES_MAX];
  gnorm_run_t known = *r;
  cpu__bn_bwd_t b = gradient_of(r, n, piece);

  known.slopes = NULL; /* not known yet: computed from these sums */
  coefs_of(&known, n, piece, coefs);
  r->k->loops->bn_bwd_sums(rows_of(r->k, piece), &b, coefs, sums_of(r, n, piece));
}

/* Computes the mean and slope of dx = (w * dy - mean - slope * (x - mean of x)) / std. */
static void group_slopes(const gnorm_run_t *r, int64_t n, int64_t g)
{
  const gnorm_op_t *k = r->k;
  int64_t apart = k->channels / k->groups;
  const float *stats = r->stats + 2 * (n * k->groups + g);
  float *slopes = r->slopes + 2 * (n * k->groups + g);
  double sum = 0, dot = 0, share = 1 / (double)(apart * k->space);

  for (int64_t c = g * apart; c < (g + 1) * apart; c++) {
    sum += weight_of(r, c) * gnorm_total(r, n, c, CPU__BN_SUM);
    dot += weight_of(r, c) * gnorm_total(r, n, c, CPU__BN_DOT);
  }
  slopes[0] = (float)(sum * share);
  slopes[1] = (float)(dot * share * stats[1] * stats[1]);
}

static void param(const gnorm_run_t *r, int64_t c)
{
  const gnorm_op_t *k = r->k;
  int64_t g = c / (k->channels / k->groups);
  double weight = 0, bias = 0;

  for (int64_t n = 0; n < k->samples; n++) {
    weight += gnorm_total(r, n, c, CPU__BN_DOT) * r->stats[2 * (n * k->groups + g) + 1];
    bias += gnorm_total(r, n, c, CPU__BN_SUM);
  }
  ((float *)r->a->dw[0])[c] = (float)weight;
  ((float *)r->a->dw[1])[c] = (float)bias;
}

static void apply_back(const gnorm_run_t *r, int64_t n, int64_t piece)
{
  float coefs[CPU__BN_COEFS * CPU__LANES_MAX];
  cpu__bn_bwd_t b = gradient_of(r, n, piece);

  b.dx = gnorm_at(r->k, r->a->dx, n, piece);
  coefs_of(r, n, piece, coefs);
  r->k->loops->bn_bwd_apply(rows_of(r->k, piece), &b, coefs);
}

static void gnorm_backward(const gnorm_run_t *r)
{
  const gnorm_op_t *k = r->k;
  int64_t pieces = k->pieces, all = k->samples * pieces;
  int64_t params = r->a->pass & CT_BWD_PARAM && k->head.desc.u.gnorm.affine ? k->channels : 0;
  int64_t data = r->a->pass & CT_BWD_DATA ? 1 : 0, groups = k->samples * k->groups;

#pragma omp parallel if (cpu__is_parallel(&k->head.desc.x))
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < all; i++)
      gradient_sums(r, i / pieces, i % pieces);
#pragma omp for schedule(static)
    for (int64_t c = 0; c < params; c++)
      param(r, c);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < data * groups; i++)
      group_slopes(r, i / k->groups, i % k->groups);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < data * all; i++)
      apply_back(r, i / pieces, i % pieces);
  }
}

/* ---- the op ---- */

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const gnorm_op_t *k = (const gnorm_op_t *)op;
  int64_t groups = 2 * k->samples * k->groups;
  gnorm_run_t r = {.k = k, .a = a, .slopes = a->scratch};

  r.sums = r.slopes + groups;
  r.stats = ct_op_goes_back(&op->desc) ? a->saved : r.slopes;
  if (a->pass & CT_FWD) {
    r.slopes = NULL;
    gnorm_forward(&r);
  } else {
    gnorm_backward(&r);
  }
  return CT_OK;
}

static int gnorm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  gnorm_op_t *k = (gnorm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  cpu__view_t v = cpu__view(&d->x);

  (void)like;
  if (v.inner == 1 && v.lanes == 1) { /* channels are contiguous anyway */
    v.lanes = v.c;
    v.groups = 1;
  }
  k->loops =
      v.lanes == 1 ? cpu__loops(op->dev, d->x.dtype) : cpu__loops_for(op->dev, d->x.dtype, v.lanes);
  k->width = v.lanes == 1 ? 1 : k->loops->width;
  k->lanes = v.lanes;
  k->block_pieces = (v.lanes + k->width - 1) / k->width;
  k->pieces = v.groups * k->block_pieces;
  k->samples = v.n;
  k->channels = v.c;
  k->groups = d->u.gnorm.groups;
  k->space = v.inner;
  size_t groups = (size_t)(2 * k->samples * k->groups) * sizeof(float);
  info->scratch = groups + (size_t)(k->samples * k->pieces * sums_size(k)) * sizeof(float);
  if (ct_op_goes_back(d)) info->saved = groups;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__gnorm = {
    .size = sizeof(gnorm_op_t), .bf16 = 1, .prepare = gnorm_prepare, .run = run};
