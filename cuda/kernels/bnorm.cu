/* Forward pass of batch normalization. */
#include "cuda/kernels/bnorm_lanes.h"

/* ---- distribution of rows ---- */

static int64_t smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t quotient_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Returns a number of blocks near \a blocks, so that all blocks have equal numbers of bands, at
 * least \a least bands each. */
static int share_out(int64_t bands, int64_t blocks, int64_t least)
{
  int64_t each = quotient_up(bands, blocks > 0 ? blocks : 1);
  if (each < least) each = least;
  return (int)quotient_up(bands, each);
}

/* Summing kernels use as many blocks as run concurrently, to have few partial sums to merge, or a
 * multiple of that, so that a thread sums at most some hundreds of rows in float32. Writing kernels
 * use several times as many, so that no multiprocessor is idle at the end. */
extern "C" gpu__bn_grid_t gpu__bn_share(ct_dtype_t type, int64_t rows, int64_t channels, int sms)
{
  enum { RESIDENT = 2, WRITING = 12, BANDS_MAX = 128, BLOCKS_MAX = 65535 };
  int pack = type == CT_F32 ? gpu_pack<float>::n : gpu_pack<gpu_f16>::n;
  gpu__bn_grid_t g = {};
  g.type = type;
  g.rows = rows;
  g.channels = channels;
  g.width = channels % pack == 0 ? pack : 1;
  g.across = 1;
  while (g.across < GPU_WARP && g.across < channels / g.width)
    g.across *= 2;
  g.columns = (int)quotient_up(channels, (int64_t)g.across * g.width);
  int64_t lines = BN_THREADS / g.across, sums = quotient_up(rows, lines * BN_ONE_ROWS);
  int64_t blocks = quotient_up((int64_t)sms * RESIDENT, g.columns);
  blocks *= quotient_up(sums, blocks * BANDS_MAX);
  g.splits = share_out(sums, smaller(blocks, BLOCKS_MAX), 1);
  blocks = quotient_up((int64_t)sms * WRITING, g.columns);
  g.spread = share_out(quotient_up(rows, lines * BN_BOTH_ROWS), smaller(blocks, BLOCKS_MAX), 2);
  return g;
}

/* ---- moments ---- */

/* Moments of some rows of V channels: count, mean, sum of squared deviations. */
template <int V> struct bn_some {
  float count, mean[V], m2[V];
};

/* Merges the moments b into a (Chan, Golub, LeVeque, "Algorithms for computing the sample
 * variance", 1983). */
template <int V> CT_D void add(bn_some<V> &a, const bn_some<V> &b)
{
  float count = a.count + b.count, share = count > 0 ? b.count / count : 0;
  GPU_UNROLL
  for (int i = 0; i < V; i++) {
    float off = b.mean[i] - a.mean[i];
    a.mean[i] = fmaf(off, share, a.mean[i]);
    a.m2[i] += fmaf(off * off, a.count * share, b.m2[i]);
  }
  a.count = count;
}

/* Merges the moments of all lines of the block into line 0. */
template <int V> CT_D void add_lines(bn_some<V> &a)
{
  CT_SHARED(bn_some<V>, other, BN_THREADS / 2);
  int line = threadIdx.y;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    int at = line % half * blockDim.x + threadIdx.x;
    if (line >= half && line < 2 * half) other[at] = a;
    __syncthreads();
    if (line < half) add(a, other[at]);
    __syncthreads();
  }
}

/* Converts sums about a shift to moments. The shift is one of the summed values, so that the square
 * of the shifted mean, which is subtracted, is at most `count` times the variance. */
template <int V>
CT_D void settle(bn_some<V> &a, const float shift[V], const float sum[V], const float square[V])
{
  float inverse = a.count > 0 ? 1 / a.count : 0;
  GPU_UNROLL
  for (int i = 0; i < V; i++) {
    float off = sum[i] * inverse, m2 = fmaf(-off, sum[i], square[i]);
    a.mean[i] = shift[i] + off;
    a.m2[i] = m2 < 0 ? 0 : m2;
  }
}

template <class T, int V>
CT_KERNEL void __launch_bounds__(BN_THREADS, 3)
    moments(gpu__bn_grid_t g, const T *x, int packed, float *partial)
{
  constexpr int U = BN_ONE_ROWS;
  bn_span<V, U> p = bn_here<V, U>(g);
  int64_t step = p.lines * g.channels;
  float shift[V] = {}, sum[V] = {}, square[V] = {};
  bn_lanes<T, V> v[U];
  bn_some<V> all = {};

  if (p.rows > 0) {
    int64_t row = bn_row(p, p.bands - 1 - blockIdx.y);
    if (row >= p.rows) row = p.rows - 1;
    bn_load<T, V, 1>(v, x + row * g.channels + p.channel, 0, 0, 1, packed);
    GPU_UNROLL
    for (int i = 0; i < V; i++)
      shift[i] = gpu_load(&v[0].v[i]);
  }
  for (int64_t k = blockIdx.y; k < p.bands; k += gridDim.y) {
    int64_t row = bn_row(p, p.bands - 1 - k), left = p.rows - row;
    bn_load<T, V, U>(v, x + row * g.channels + p.channel, step, p.lines, left, packed);
    GPU_UNROLL
    for (int u = 0; u < U; u++) {
      if (u * p.lines >= left) continue;
      all.count += 1;
      GPU_UNROLL
      for (int i = 0; i < V; i++) {
        float d = gpu_load(&v[u].v[i]) - shift[i];
        sum[i] += d;
        square[i] = fmaf(d, d, square[i]);
      }
    }
  }
  settle(all, shift, sum, square);
  add_lines(all);
  if (threadIdx.y > 0 || p.rows == 0) return;
  float *mean = partial + blockIdx.y * g.channels + p.channel;
  GPU_UNROLL
  for (int i = 0; i < V; i++) {
    mean[i] = all.mean[i];
    mean[gridDim.y * g.channels + i] = all.m2[i];
  }
}

extern "C" cudaError_t gpu__bn_moments(const gpu__bn_grid_t *g, const void *x, float *partial,
                                       cudaStream_t stream)
{
  dim3 grid((unsigned)g->columns, (unsigned)g->splits);
  if (g->splits == 0) return cudaSuccess;
  BN_BY_WIDTH(g, T, V,
              CT_LAUNCH((moments<T, V>), grid, bn_block(g), stream, *g, (const T *)x,
                        gpu_is_aligned(x), partial))
  return cudaGetLastError();
}

/* ---- output ---- */

struct bn_output {
  int relu, packed;
  unsigned char *kept;
};

template <class T, int V>
CT_KERNEL void __launch_bounds__(BN_THREADS, 2)
    normalise(gpu__bn_grid_t g, gpu__bn_norm_t norm, const T *x, const T *x2, T *y, bn_output o)
{
  constexpr int U = BN_ONE_ROWS;
  bn_span<V, U> p = bn_here<V, U>(g);
  int64_t step = p.lines * g.channels;
  bn_lanes<T, V> v[U], w[U];

  if (p.rows == 0) return;
  bn_coefs<V> coefs = bn_load_coefs<V>(norm, p.channel);
  for (int64_t k = blockIdx.y; k < p.bands; k += gridDim.y) {
    int64_t row = bn_row(p, k), left = p.rows - row, at = row * g.channels + p.channel;
    bn_load<T, V, U>(v, x + at, step, p.lines, left, o.packed);
    if (x2) bn_load<T, V, U>(w, x2 + at, step, p.lines, left, o.packed);
    GPU_UNROLL
    for (int u = 0; u < U; u++) {
      if (u * p.lines >= left) continue;
      unsigned signs = 0;
      GPU_UNROLL
      for (int i = 0; i < V; i++) {
        float r = bn_value(coefs, i, gpu_load(&v[u].v[i]));
        if (x2) r += gpu_load(&w[u].v[i]);
        bool passes = !o.relu || bn_passes(r);
        gpu_store(&v[u].v[i], !passes ? 0 : o.relu == 6 && r > 6 ? 6 : r);
        if (o.relu == 6) passes = passes && !(gpu_load(&v[u].v[i]) >= 6);
        signs |= (unsigned)passes << i;
      }
      bn_store(y + at + u * step, v[u], o.packed);
      if (o.kept) o.kept[(at + u * step) / V] = (unsigned char)signs;
    }
  }
}

extern "C" cudaError_t gpu__bn_normalise(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm,
                                         const void *x, const void *x2, int relu, void *y,
                                         unsigned char *kept, cudaStream_t stream)
{
  dim3 grid((unsigned)g->columns, (unsigned)g->spread);
  bn_output o = {relu, gpu_is_aligned(x) && gpu_is_aligned(x2) && gpu_is_aligned(y), kept};
  if (g->spread == 0) return cudaSuccess;
  BN_BY_WIDTH(g, T, V,
              CT_LAUNCH((normalise<T, V>), grid, bn_block(g), stream, *g, *norm, (const T *)x,
                        (const T *)x2, (T *)y, o))
  return cudaGetLastError();
}
