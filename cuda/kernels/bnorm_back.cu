/* Backward pass of batch normalization. */
#include "cuda/kernels/bnorm_lanes.h"

/* Inputs of a kernel, read as U rows of V channels at a time. */
template <class T> struct bn_reads {
  const T *x, *dy, *dy2;     /* x, dy2 NULL: not read */
  const unsigned char *kept; /* GPU_BN_KEPT */
  int packed;                /* 0: pointers may not be aligned to packs */
  int adds;                  /* 1: dy2 is added to dy */
};

template <class T, int V, int U> struct bn_rows {
  bn_lanes<T, V> x[U], dy[U], dy2[U];
  unsigned char signs[U];
};

template <class T, int V, int U, int SIGN>
CT_D void load_rows(bn_rows<T, V, U> &r, const bn_reads<T> &in, const bn_span<V, U> &p, int64_t at,
                    int64_t step, int64_t left)
{
  bn_load<T, V, U>(r.dy, in.dy + at, step, p.lines, left, in.packed);
  if (in.x) bn_load<T, V, U>(r.x, in.x + at, step, p.lines, left, in.packed);
  if (in.adds) bn_load<T, V, U>(r.dy2, in.dy2 + at, step, p.lines, left, in.packed);
  GPU_UNROLL
  for (int u = 0; SIGN == GPU_BN_KEPT && u < U; u++)
    if (u * p.lines < left) r.signs[u] = in.kept[(at + u * step) / V];
}

/* Returns the gradient of the ReLU's input. */
template <class T, int V, int U, int SIGN>
CT_D float gradient(const bn_rows<T, V, U> &r, const bn_coefs<V> &coefs, int adds, int u, int i)
{
  float g = gpu_load(&r.dy[u].v[i]);
  if (adds) g += gpu_load(&r.dy2[u].v[i]);
  bool passes = SIGN == GPU_BN_LINEAR ||
                (SIGN == GPU_BN_KEPT ? r.signs[u] >> i & 1
                                     : bn_passes(bn_value(coefs, i, gpu_load(&r.x[u].v[i]))));
  return passes ? g : 0;
}

/* ---- sums ---- */

template <int V> struct bn_sums {
  float sum[V], dot[V];
  float apart; /* padding, so that adjacent threads use different shared memory banks */
};

/* Merges the sums of all lines of the block into line 0. */
template <int V> CT_D void add_lines(bn_sums<V> &a)
{
  CT_SHARED(bn_sums<V>, other, BN_THREADS / 2);
  int line = threadIdx.y;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    int at = line % half * blockDim.x + threadIdx.x;
    if (line >= half && line < 2 * half) other[at] = a;
    __syncthreads();
    GPU_UNROLL
    for (int i = 0; i < V; i++) {
      if (line >= half) continue;
      a.sum[i] += other[at].sum[i];
      a.dot[i] += other[at].dot[i];
    }
    __syncthreads();
  }
}

template <class T, int V, int SIGN>
CT_KERNEL void __launch_bounds__(BN_THREADS, 2)
    gradient_sums(gpu__bn_grid_t g, gpu__bn_norm_t norm, bn_reads<T> in, T *g_out, float *partial)
{
  constexpr int U = BN_BOTH_ROWS;
  bn_span<V, U> p = bn_here<V, U>(g);
  int64_t step = p.lines * g.channels;
  bn_coefs<V> coefs = {};
  bn_rows<T, V, U> r;
  bn_sums<V> all = {};

  if (p.rows > 0) coefs = bn_load_coefs<V>(norm, p.channel);
  for (int64_t k = blockIdx.y; k < p.bands; k += gridDim.y) {
    int64_t row = bn_row(p, p.bands - 1 - k), left = p.rows - row;
    int64_t at = row * g.channels + p.channel;
    load_rows<T, V, U, SIGN>(r, in, p, at, step, left);
    GPU_UNROLL
    for (int u = 0; u < U; u++) {
      if (u * p.lines >= left) continue;
      GPU_UNROLL
      for (int i = 0; i < V; i++) {
        float v = gradient<T, V, U, SIGN>(r, coefs, in.adds, u, i);
        all.sum[i] += v;
        all.dot[i] = fmaf(v, gpu_load(&r.x[u].v[i]) - coefs.mean[i], all.dot[i]);
        gpu_store(&r.dy[u].v[i], v);
      }
      if (g_out) bn_store(g_out + at + u * step, r.dy[u], in.packed);
    }
  }
  add_lines(all);
  if (threadIdx.y > 0 || p.rows == 0) return;
  float *sum = partial + blockIdx.y * g.channels + p.channel;
  GPU_UNROLL
  for (int i = 0; i < V; i++) {
    sum[i] = all.sum[i];
    sum[gridDim.y * g.channels + i] = all.dot[i];
  }
}

template <class T>
static bn_reads<T> reads_of(const void *x, const gpu__bn_gradient_t *in, const void *out,
                            const void *out2)
{
  bn_reads<T> r = {(const T *)x,   (const T *)in->dy, (const T *)in->dy2, in->kept, 0,
                   in->dy2 != NULL};
  r.packed = gpu_is_aligned(x) && gpu_is_aligned(in->dy) && gpu_is_aligned(in->dy2) &&
             gpu_is_aligned(out) && gpu_is_aligned(out2);
  return r;
}

/* Runs the statement with SIGN as a constant. */
#define BY_SIGN(sign, SIGN, ...)        \
  if ((sign) == GPU_BN_LINEAR) {        \
    constexpr int SIGN = GPU_BN_LINEAR; \
    __VA_ARGS__;                        \
  } else if ((sign) == GPU_BN_FROM_X) { \
    constexpr int SIGN = GPU_BN_FROM_X; \
    __VA_ARGS__;                        \
  } else {                              \
    constexpr int SIGN = GPU_BN_KEPT;   \
    __VA_ARGS__;                        \
  }

extern "C" cudaError_t gpu__bn_gradient_sums(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm,
                                             const void *x, const gpu__bn_gradient_t *in,
                                             void *g_out, float *partial, cudaStream_t stream)
{
  dim3 grid((unsigned)g->columns, (unsigned)g->splits);
  if (g->splits == 0) return cudaSuccess;
  BN_BY_WIDTH(g, T, V,
              BY_SIGN(in->sign, SIGN,
                      CT_LAUNCH((gradient_sums<T, V, SIGN>), grid, bn_block(g), stream, *g, *norm,
                                reads_of<T>(x, in, g_out, nullptr), (T *)g_out, partial)))
  return cudaGetLastError();
}

/* ---- output ---- */

template <class T> struct bn_writes {
  const float *middle, *slope; /* NULL: fixed statistics */
  T *dx, *dx2;
};

template <class T, int V, int SIGN>
CT_KERNEL void __launch_bounds__(BN_THREADS, 2)
    gradients(gpu__bn_grid_t g, gpu__bn_norm_t norm, bn_reads<T> in, bn_writes<T> out)
{
  constexpr int U = BN_BOTH_ROWS;
  bn_span<V, U> p = bn_here<V, U>(g);
  int64_t step = p.lines * g.channels;
  bn_rows<T, V, U> r;
  float middle[V] = {}, slope[V] = {};

  if (p.rows == 0) return;
  bn_coefs<V> coefs = bn_load_coefs<V>(norm, p.channel);
  if (out.middle) {
    bn_load_floats<V>(middle, out.middle + p.channel);
    bn_load_floats<V>(slope, out.slope + p.channel);
  }
  for (int64_t k = blockIdx.y; k < p.bands; k += gridDim.y) {
    int64_t row = bn_row(p, k), left = p.rows - row, at = row * g.channels + p.channel;
    load_rows<T, V, U, SIGN>(r, in, p, at, step, left);
    GPU_UNROLL
    for (int u = 0; u < U; u++) {
      if (u * p.lines >= left) continue;
      GPU_UNROLL
      for (int i = 0; i < V; i++) {
        float v = gradient<T, V, U, SIGN>(r, coefs, in.adds, u, i), rest = v;
        if (out.middle)
          rest = fmaf(coefs.mean[i] - gpu_load(&r.x[u].v[i]), slope[i], v - middle[i]);
        gpu_store(&r.dy[u].v[i], v);
        gpu_store(&r.x[u].v[i], coefs.scale[i] * rest);
      }
      if (out.dx2) bn_store(out.dx2 + at + u * step, r.dy[u], in.packed);
      if (out.dx) bn_store(out.dx + at + u * step, r.x[u], in.packed);
    }
  }
}

extern "C" cudaError_t gpu__bn_dx(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm,
                                  const void *x, const gpu__bn_gradient_t *in, const float *middle,
                                  const float *slope, void *dx, void *dx2, cudaStream_t stream)
{
  dim3 grid((unsigned)g->columns, (unsigned)g->spread);
  const void *reads = middle || in->sign == GPU_BN_FROM_X ? x : NULL;
  if (g->spread == 0) return cudaSuccess;
  BN_BY_WIDTH(g, T, V,
              BY_SIGN(in->sign, SIGN, bn_writes<T> out = {middle, slope, (T *)dx, (T *)dx2};
                      CT_LAUNCH((gradients<T, V, SIGN>), grid, bn_block(g), stream, *g, *norm,
                                reads_of<T>(reads, in, dx, dx2), out)))
  return cudaGetLastError();
}
