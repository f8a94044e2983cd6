/* Batch normalisation statistics: per-channel coefficients from the sums of tiles.
 *
 * With SyncBN each direction is split after the sums, which are all-reduced over a group of ranks.
 * The forward pass sums x - s and (x - s)^2, where s is the running mean, identical on all ranks.
 * Such sums in double are accurate enough: the local sums come from moments merged around means,
 * without cancellation, and the total variance has a relative error of ((mean - s) / std)^2 *
 * 2^-53. Even if the mean is a thousand standard deviations from s, as in the first step of a badly
 * scaled network, nine digits remain, more than float32 has; later the running mean is close to the
 * mean. */
#include <math.h>
#include <string.h>

#include "cpu/kern/bnorm_stats.h"

/* ---- units ---- */

static int64_t first_channel(const cpu__bn_run_t *r, int64_t unit)
{
  return unit * r->k->channels;
}

static int64_t end_channel(const cpu__bn_run_t *r, int64_t unit)
{
  return ct_least(r->k->op.desc.x.dim[1], (unit + 1) * r->k->channels);
}

/* Returns the first lane of a unit in the sums and coefficients of its block. */
static int64_t lane_of(const cpu__bnorm_t *k, int64_t unit)
{
  return unit % k->block_units * k->loops->width;
}

/* Returns one of the sums of the tile of an image, for all lanes of a unit. */
static const float *unit_sums(const cpu__bn_run_t *r, int64_t unit, int64_t image, int which)
{
  const cpu__bnorm_t *k = r->k;
  return cpu__bn_sums_of(r, unit / k->block_units, image) + which * k->rows.channels +
         lane_of(k, unit);
}

/* ---- moments ---- */

/* Per lane: number of elements, mean, and sum of squared deviations from the mean. */
typedef struct moments {
  double n[CPU__LANES_MAX], mean[CPU__LANES_MAX], m2[CPU__LANES_MAX];
} moments_t;

/* The number of elements per lane of a tile and its inverse, and its share of the elements so
 * far. */
typedef struct portion {
  double n, inverse, share;
} portion_t;

static portion_t portion_of(double n, double before)
{
  return n > 0 ? (portion_t){n, 1 / n, n / (before + n)} : (portion_t){0, 0, 0};
}

/* Merges moments into a lane of *all (Chan, Golub, LeVeque, "Algorithms for computing the sample
 * variance", 1983). */
static inline void bnorm_stats_merge(moments_t *all, int lane, portion_t p, double mean, double m2)
{
  double off = mean - all->mean[lane];

  all->mean[lane] += off * p.share;
  all->m2[lane] += m2 + off * off * all->n[lane] * p.share;
  all->n[lane] += p.n;
}

/* Merges the lanes [from, to) of a tile, which have the same number of elements. */
static void merge_lanes(moments_t *all, int from, int to, double n, const float *const s[])
{
  portion_t p = from < to ? portion_of(n, all->n[from]) : (portion_t){0};

#pragma omp simd
  for (int lane = from; lane < to; lane++) {
    double sum = s[CPU__BN_SUM][lane], off = sum * p.inverse;
    double m2 = s[CPU__BN_DOT][lane] - off * sum; /* < 0: by rounding */
    bnorm_stats_merge(all, lane, p, s[CPU__BN_SHIFT][lane] + off, m2 < 0 ? 0 : m2);
  }
}

/* Merges the moments of a unit's channels into its first lanes. */
static void merge_tiles(const cpu__bn_run_t *r, int64_t unit, moments_t *all)
{
  int width = r->k->loops->width, channels = (int)r->k->channels, rest = (int)r->k->rows.rest;

  memset(all, 0, sizeof *all);
  for (int64_t image = 0; image < r->k->images; image++) {
    double n = (double)cpu__bn_rows_of(r->k, unit / r->k->block_units, image).rows;
    const float *s[CPU__BN_SUMS];
    for (int i = 0; i < CPU__BN_SUMS; i++)
      s[i] = unit_sums(r, unit, image, i);
    merge_lanes(all, 0, rest, n + 1, s);
    merge_lanes(all, rest, width, n, s);
  }
  for (int lane = channels; lane < width; lane++)
    bnorm_stats_merge(all, lane % channels, portion_of(all->n[lane], all->n[lane % channels]),
                      all->mean[lane], all->m2[lane]);
}

/* ---- coefficients ---- */

static void update_running(const cpu__bn_run_t *r, int64_t c, double n, double mean, double m2)
{
  double m = r->k->op.desc.u.bnorm.momentum, unbiased = m2 / (n - 1);
  float *running_mean = (float *)r->a->w[2] + c, *running_var = (float *)r->a->w[3] + c;

  *running_mean = (float)((1 - m) * *running_mean + m * mean);
  *running_var = (float)((1 - m) * *running_var + m * unbiased);
}

/* Mean and 1/std of a channel.  Backward uses the same float32 numbers as forward, so that it
 * recomputes exactly the y that the ReLU saw. */
typedef struct norm {
  float mean, invstd;
} norm_t;

static float invstd_of(const cpu__bnorm_t *k, double var)
{
  return (float)(1 / sqrt(var + k->op.desc.u.bnorm.eps));
}

static int keeps_norms(const ct_op_desc_t *d)
{
  return d->training && ct_op_goes_back(d);
}

/* Returns the memory in which forward saves the batch statistics for backward; NULL: not needed. */
static norm_t *saved_of(const cpu__bn_run_t *r)
{
  return keeps_norms(&r->k->op.desc) ? r->a->saved : NULL;
}

size_t cpu__bn_saved_bytes(const ct_op_desc_t *d)
{
  size_t count = d->u.bnorm.sync ? sizeof(double) : 0;
  return keeps_norms(d) ? (size_t)d->x.dim[1] * sizeof(norm_t) + count : 0;
}

double *cpu__bn_saved_count(const cpu__bn_run_t *r)
{
  norm_t *saved = saved_of(r);
  return saved ? (double *)(saved + r->k->op.desc.x.dim[1]) : NULL;
}

/* Returns the statistics that exist before a pass: in backward the batch statistics, in evaluation
 * the running statistics. */
static norm_t known_norm(const cpu__bn_run_t *r, int64_t c)
{
  const norm_t *saved = saved_of(r);
  const float *mean = r->a->w[2], *var = r->a->w[3];

  if (r->k->images == 0 && !r->k->op.desc.u.bnorm.sync)
    return (norm_t){0, 0}; /* nothing was saved */
  return saved ? saved[c] : (norm_t){mean[c], invstd_of(r->k, var[c])};
}

/* Sets one coefficient of a channel in all its lanes. */
static void set_coef(const cpu__bn_run_t *r, int64_t c, int which, double value)
{
  const cpu__bnorm_t *k = r->k;
  int64_t unit = c / k->channels, width = k->loops->width;
  float *coefs =
      cpu__bn_coefs_of(r, unit / k->block_units) + which * k->rows.channels + lane_of(k, unit);

  for (int64_t lane = c % k->channels; lane < width; lane += k->channels)
    coefs[lane] = (float)value;
}

static void set_norm(const cpu__bn_run_t *r, int64_t c, norm_t norm)
{
  set_coef(r, c, CPU__BN_MEAN, norm.mean);
  set_coef(r, c, CPU__BN_SCALE, ((const float *)r->a->w[0])[c] * norm.invstd);
  set_coef(r, c, CPU__BN_BIAS, ((const float *)r->a->w[1])[c]);
}

/* Zeroes the coefficients.  The coefficients of padding lanes stay 0, so padding stays 0. */
static void clear_coefs(const cpu__bn_run_t *r, int64_t unit)
{
  const cpu__bnorm_t *k = r->k;
  float *coefs = cpu__bn_coefs_of(r, unit / k->block_units) + lane_of(k, unit);

  for (int i = 0; i < CPU__BN_COEFS; i++)
    memset(coefs + i * k->rows.channels, 0, (size_t)k->loops->width * sizeof *coefs);
}

static void take_norm(const cpu__bn_run_t *r, int64_t c, double n, double mean, double m2)
{
  norm_t norm = {(float)mean, invstd_of(r->k, m2 / n)}, *saved = saved_of(r);

  if (!r->a->keep_running && n > 1) update_running(r, c, n, mean, m2);
  set_norm(r, c, norm);
  if (saved) saved[c] = norm;
}

void cpu__bn_batch_norms(const cpu__bn_run_t *r, int64_t unit)
{
  moments_t all;

  merge_tiles(r, unit, &all);
  clear_coefs(r, unit);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++) {
    int64_t j = c - first_channel(r, unit);
    take_norm(r, c, all.n[j], all.mean[j], all.m2[j]);
  }
}

void cpu__bn_local_stats(const cpu__bn_run_t *r, int64_t unit)
{
  moments_t all;
  const float *running_mean = r->a->w[2];

  merge_tiles(r, unit, &all);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++) {
    int64_t j = c - first_channel(r, unit);
    double n = all.n[j], off = all.mean[j] - running_mean[c];
    r->a->stats[2 * c] = n > 0 ? n * off : 0;
    r->a->stats[2 * c + 1] = n > 0 ? all.m2[j] + n * off * off : 0;
  }
}

void cpu__bn_synced_norms(const cpu__bn_run_t *r, int64_t unit)
{
  const double *stats = r->a->stats;
  double n = stats[2 * r->k->op.desc.x.dim[1]];

  clear_coefs(r, unit);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++) {
    double off = stats[2 * c] / n, m2 = stats[2 * c + 1] - stats[2 * c] * off;
    take_norm(r, c, n, ((const float *)r->a->w[2])[c] + off, m2 < 0 ? 0 : m2);
  }
}

void cpu__bn_known_norms(const cpu__bn_run_t *r, int64_t unit)
{
  clear_coefs(r, unit);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++)
    set_norm(r, c, known_norm(r, c));
}

/* Adds up the sums of a unit's tiles; the result for a channel is in its first lane. */
static void add_tiles(const cpu__bn_run_t *r, int64_t unit, double *sum, double *dot)
{
  int width = r->k->loops->width, channels = (int)r->k->channels;

  for (int64_t image = 0; image < r->k->images; image++) {
    const float *sums = unit_sums(r, unit, image, CPU__BN_SUM);
    const float *dots = unit_sums(r, unit, image, CPU__BN_DOT);
#pragma omp simd
    for (int lane = 0; lane < width; lane++) {
      sum[lane] += sums[lane];
      dot[lane] += dots[lane];
    }
  }
  for (int lane = channels; lane < width; lane++) {
    sum[lane % channels] += sum[lane];
    dot[lane % channels] += dot[lane];
  }
}

/* Sets the coefficients of dx that are constant over a channel. */
static void set_slopes(const cpu__bn_run_t *r, int64_t c, double sum, double dot, double count)
{
  double invstd = known_norm(r, c).invstd;

  set_coef(r, c, CPU__BN_DY_MEAN, sum / count);
  set_coef(r, c, CPU__BN_DY_SLOPE, dot * invstd * invstd / count);
}

static void set_gradients(const cpu__bn_run_t *r, int64_t c, double sum, double dot)
{
  ((float *)r->a->dw[0])[c] = (float)(dot * known_norm(r, c).invstd);
  ((float *)r->a->dw[1])[c] = (float)sum;
}

int64_t cpu__bn_elements(const cpu__bn_run_t *r)
{
  const ct_shape_t *x = &r->k->op.desc.x;
  return x->dim[0] * cpu__view(x).inner;
}

void cpu__bn_gradients(const cpu__bn_run_t *r, int64_t unit)
{
  double sums[CPU__LANES_MAX] = {0}, dots[CPU__LANES_MAX] = {0};
  int64_t count = cpu__bn_elements(r);

  add_tiles(r, unit, sums, dots);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++) {
    int64_t j = c - first_channel(r, unit);
    if (r->a->pass & CT_BWD_PARAM) set_gradients(r, c, sums[j], dots[j]);
    if (r->k->op.desc.training && count > 0) set_slopes(r, c, sums[j], dots[j], (double)count);
  }
}

void cpu__bn_local_gradients(const cpu__bn_run_t *r, int64_t unit)
{
  double sums[CPU__LANES_MAX] = {0}, dots[CPU__LANES_MAX] = {0};

  add_tiles(r, unit, sums, dots);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++) {
    int64_t j = c - first_channel(r, unit);
    if (r->k->op.desc.passes & CT_BWD_PARAM) set_gradients(r, c, sums[j], dots[j]);
    r->a->stats[2 * c] = sums[j];
    r->a->stats[2 * c + 1] = dots[j];
  }
}

void cpu__bn_synced_gradients(const cpu__bn_run_t *r, int64_t unit)
{
  const double *stats = r->a->stats;

  cpu__bn_known_norms(r, unit);
  for (int64_t c = first_channel(r, unit); c < end_channel(r, unit); c++)
    set_slopes(r, c, stats[2 * c], stats[2 * c + 1], *cpu__bn_saved_count(r));
}
