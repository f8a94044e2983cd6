/* Batch normalization: merges the partial sums of the splits, in double, into coefficients per
 * channel. */
#include "cuda/kernels/bnorm_lanes.h"

enum { LINES = BN_THREADS / BN_MERGE };

struct two_sums {
  double a, b;
};

/* Returns this thread's channel; the thread's splits are threadIdx.y, threadIdx.y + LINES, … */
CT_D int64_t channel_here()
{
  return (int64_t)blockIdx.x * BN_MERGE + threadIdx.x;
}

/* Returns in line 0 the sums over all lines. */
CT_D two_sums over_lines(two_sums s)
{
  CT_SHARED(two_sums, other, BN_THREADS / 2);
  int line = threadIdx.y;
  for (int half = LINES / 2; half > 0; half /= 2) {
    int at = line % half * BN_MERGE + threadIdx.x;
    if (line >= half && line < 2 * half) other[at] = s;
    __syncthreads();
    if (line < half) s = {s.a + other[at].a, s.b + other[at].b};
    __syncthreads();
  }
  return s;
}

/* Returns the number of blocks of a kernel with one thread per channel. */
static unsigned blocks_of(int64_t channels)
{
  return gpu_grid(channels, BN_THREADS);
}

/* Returns the grid of a merging kernel. */
static dim3 merging_grid(const gpu__bn_grid_t *g)
{
  return dim3((unsigned)((g->channels + BN_MERGE - 1) / BN_MERGE));
}

/* ---- forward ---- */

/* Distribution of the rows over the splits: bands are given to splits from the last band, which may
 * be smaller, to the first. The division is done once, not per split, since divisions would
 * dominate the run time here. */
struct dealt {
  int64_t band;    /* rows per band */
  int64_t each;    /* bands per split */
  int64_t more;    /* number of splits that have one band more */
  int64_t missing; /* rows by which the last band is short */
};

CT_D dealt deal(const gpu__bn_grid_t &g)
{
  int64_t band = BN_THREADS / g.across * BN_ONE_ROWS, bands = (g.rows + band - 1) / band;
  return {band, bands / g.splits, bands % g.splits, bands * band - g.rows};
}

CT_D double rows_of(const dealt &d, int64_t split)
{
  int64_t rows = (d.each + (split < d.more)) * d.band;
  return (double)(split == 0 ? rows - d.missing : rows);
}

/* Returns the sums of x - about and (x - about)^2 over all rows of a channel, in double. The
 * rounding error of the variance computed from these sums is ((mean - about) / std)^2 * 2^-53,
 * relative. */
CT_D two_sums sums_about(const gpu__bn_grid_t &g, const float *partial, int64_t channel,
                         double about)
{
  const float *mean = partial + channel, *m2 = mean + g.splits * g.channels;
  two_sums s = {0, 0};
  dealt rows = {};
  if (g.splits > 0) rows = deal(g);
  for (int64_t i = threadIdx.y; channel < g.channels && i < g.splits; i += LINES) {
    double n = rows_of(rows, i), off = mean[i * g.channels] - about;
    s.a += n * off;
    s.b += m2[i * g.channels] + n * off * off;
  }
  return over_lines(s);
}

CT_D void take(const gpu__bn_stats_t &t, int64_t c, double about, two_sums s, double n)
{
  double off = s.a / n, var = s.b / n - off * off, mean = about + off;
  if (var < 0) var = 0;
  t.mean[c] = (float)mean;
  t.invstd[c] = (float)(1 / sqrt(var + t.eps));
  if (t.count && c == 0) *t.count = n;
  double m = t.momentum, unbiased = var * (n / (n - 1));
  if (m == 0 || n <= 1) return;
  t.running_mean[c] = (float)((1 - m) * t.running_mean[c] + m * mean);
  t.running_var[c] = (float)((1 - m) * t.running_var[c] + m * unbiased);
}

CT_KERNEL void __launch_bounds__(BN_THREADS)
    take_moments(gpu__bn_grid_t g, const float *partial, gpu__bn_stats_t out)
{
  int64_t c = channel_here();
  double about = c < g.channels ? partial[c] : 0; /* mean of split 0 */
  two_sums s = sums_about(g, partial, c, about);
  if (threadIdx.y == 0 && c < g.channels) take(out, c, about, s, (double)g.rows);
}

extern "C" cudaError_t gpu__bn_merge(const gpu__bn_grid_t *g, const float *partial,
                                     const gpu__bn_stats_t *out, cudaStream_t stream)
{
  CT_LAUNCH(take_moments, merging_grid(g), dim3(BN_MERGE, LINES), stream, *g, partial, *out);
  return cudaGetLastError();
}

CT_KERNEL void __launch_bounds__(BN_THREADS)
    local_moments(gpu__bn_grid_t g, const float *partial, const float *running_mean, double *stats)
{
  int64_t c = channel_here();
  two_sums s = sums_about(g, partial, c, c < g.channels ? running_mean[c] : 0);
  if (threadIdx.y > 0 || c >= g.channels) return;
  stats[2 * c] = s.a;
  stats[2 * c + 1] = s.b;
  if (c == 0) stats[2 * g.channels] = (double)g.rows;
}

extern "C" cudaError_t gpu__bn_local(const gpu__bn_grid_t *g, const float *partial,
                                     const float *running_mean, double *stats, cudaStream_t stream)
{
  CT_LAUNCH(local_moments, merging_grid(g), dim3(BN_MERGE, LINES), stream, *g, partial,
            running_mean, stats);
  return cudaGetLastError();
}

CT_KERNEL void take_synced(int64_t channels, const double *stats, gpu__bn_stats_t out)
{
  double n = stats[2 * channels];
  if (!(n > 0)) return;
  GPU_LOOP (c, channels)
    take(out, c, out.running_mean[c], {stats[2 * c], stats[2 * c + 1]}, n);
}

extern "C" cudaError_t gpu__bn_merge_synced(int64_t channels, const double *stats,
                                            const gpu__bn_stats_t *out, cudaStream_t stream)
{
  CT_LAUNCH(take_synced, blocks_of(channels), BN_THREADS, stream, channels, stats, *out);
  return cudaGetLastError();
}

/* ---- backward ---- */

CT_D void set_slope(const gpu__bn_summed_t &out, int64_t c, two_sums s, double invstd, double n)
{
  out.middle[c] = (float)(s.a / n);
  out.slope[c] = (float)(s.b * invstd * invstd / n);
}

CT_KERNEL void __launch_bounds__(BN_THREADS)
    take_sums(gpu__bn_grid_t g, const float *partial, gpu__bn_norm_t norm, gpu__bn_summed_t out)
{
  int64_t c = channel_here();
  const float *sum = partial + c, *dot = sum + g.splits * g.channels;
  two_sums s = {0, 0};
  for (int64_t i = threadIdx.y; c < g.channels && i < g.splits; i += LINES) {
    s.a += sum[i * g.channels];
    s.b += dot[i * g.channels];
  }
  s = over_lines(s);
  if (threadIdx.y > 0 || c >= g.channels) return;
  /* an empty batch has saved no statistics */
  double invstd = g.rows > 0 ? bn_invstd(norm, c) : 0;
  if (out.dweight) out.dweight[c] = (float)(s.b * invstd);
  if (out.dbias) out.dbias[c] = (float)s.a;
  if (out.middle) set_slope(out, c, s, invstd, (double)g.rows);
  if (!out.stats) return;
  out.stats[2 * c] = s.a;
  out.stats[2 * c + 1] = s.b;
}

extern "C" cudaError_t gpu__bn_sum_up(const gpu__bn_grid_t *g, const float *partial,
                                      const gpu__bn_norm_t *norm, const gpu__bn_summed_t *out,
                                      cudaStream_t stream)
{
  CT_LAUNCH(take_sums, merging_grid(g), dim3(BN_MERGE, LINES), stream, *g, partial, *norm, *out);
  return cudaGetLastError();
}

CT_KERNEL void take_synced_sums(int64_t channels, const double *stats, const double *count,
                                gpu__bn_norm_t norm, gpu__bn_summed_t out)
{
  GPU_LOOP (c, channels)
    set_slope(out, c, {stats[2 * c], stats[2 * c + 1]}, bn_invstd(norm, c), *count);
}

extern "C" cudaError_t gpu__bn_sum_up_synced(int64_t channels, const double *stats,
                                             const double *count, const gpu__bn_norm_t *norm,
                                             const gpu__bn_summed_t *out, cudaStream_t stream)
{
  CT_LAUNCH(take_synced_sums, blocks_of(channels), BN_THREADS, stream, channels, stats, count,
            *norm, *out);
  return cudaGetLastError();
}
