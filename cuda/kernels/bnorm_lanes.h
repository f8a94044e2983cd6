/** \file bnorm_lanes.h  Helpers of the batch normalization kernels: the channels and rows of a
 * thread. Module-internal.
 *
 * A block is `across` threads wide and as high as its 256 threads allow; a line is a row of its
 * threads. The block iterates over bands; a band is U rows of the tensor for each line. Recently
 * used rows are still in the L2 cache: summing kernels go from the last band to the first, to start
 * with the rows that the previous op wrote last, and writing kernels go from the first to the
 * last. */
#ifndef GPU_BNORM_LANES_H
#define GPU_BNORM_LANES_H
#include "cuda/kernels/bnorm.h"
#include "cuda/kernels/kernel.h"

enum {
  BN_THREADS = 256,
  BN_ONE_ROWS = 4,  /* U of the moments, which read one tensor */
  BN_BOTH_ROWS = 2, /* U of kernels that read several tensors */
  BN_MERGE = 8      /* channels per block of the merging kernels */
};

/** V adjacent channels of a row. */
template <class T, int V> struct alignas(V * sizeof(T)) bn_lanes {
  T v[V];
};

/** The channels and rows of a thread. */
template <int V, int U> struct bn_span {
  int64_t channel; /* first of V channels */
  int64_t rows;    /* rows of the tensor; 0 for threads beyond the last channel */
  int64_t bands;
  int lines; /* per block */
};

template <int V, int U> CT_D bn_span<V, U> bn_here(const gpu__bn_grid_t &g)
{
  bn_span<V, U> p;
  p.channel = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
  p.lines = blockDim.y;
  p.rows = p.channel < g.channels ? g.rows : 0;
  p.bands = (p.rows + p.lines * U - 1) / (p.lines * U);
  return p;
}

/** Returns the thread's first row in a band; its next rows are `lines` apart. */
template <int V, int U> CT_D int64_t bn_row(const bn_span<V, U> &p, int64_t band)
{
  return band * p.lines * U + threadIdx.y;
}

/** Loads U rows of the thread's channels from \a p on, `step` elements apart. The tensor ends after
 * \a left rows; rows beyond are zero. packed: 0 if p may not be aligned to packs. */
template <class T, int V, int U>
CT_D void bn_load(bn_lanes<T, V> out[U], const T *p, int64_t step, int lines, int64_t left,
                  int packed)
{
  GPU_UNROLL
  for (int u = 0; u < U; u++)
    out[u] = {};
  if constexpr (V > 1) {
    if (packed) {
      GPU_UNROLL
      for (int u = 0; u < U; u++)
        if (u * lines < left) {
          gpu_pack<T> pack = gpu_load_pack(p + u * step);
          memcpy(&out[u], &pack, sizeof pack);
        }
      return;
    }
  }
  GPU_UNROLL
  for (int u = 0; u < U; u++)
    GPU_UNROLL
  for (int i = 0; i < V; i++)
    if (u * lines < left) out[u].v[i] = p[u * step + i];
}

template <class T, int V> CT_D void bn_store(T *p, const bn_lanes<T, V> &v, int packed)
{
  if constexpr (V > 1) {
    if (packed) {
      gpu_pack<T> pack;
      memcpy(&pack, &v, sizeof pack);
      gpu_store_pack(p, pack);
      return;
    }
  }
  GPU_UNROLL
  for (int i = 0; i < V; i++)
    p[i] = v.v[i];
}

/** Loads V per-channel values. */
template <int V> CT_D void bn_load_floats(float out[V], const float *p)
{
  if constexpr (V >= gpu_pack<float>::n) {
    if ((uintptr_t)p % GPU_PACK_BYTES == 0) {
      GPU_UNROLL
      for (int i = 0; i < V; i += gpu_pack<float>::n) {
        gpu_pack<float> pack = gpu_load_pack(p + i);
        memcpy(out + i, &pack, sizeof pack);
      }
      return;
    }
  }
  GPU_UNROLL
  for (int i = 0; i < V; i++)
    out[i] = p[i];
}

/** Coefficients of V channels. */
template <int V> struct bn_coefs {
  float mean[V], scale[V], bias[V];
};

CT_D float bn_invstd(const gpu__bn_norm_t &n, int64_t channel)
{
  return n.invstd ? n.invstd[channel] : 1 / sqrtf(n.var[channel] + (float)n.eps);
}

template <int V> CT_D bn_coefs<V> bn_load_coefs(const gpu__bn_norm_t &n, int64_t channel)
{
  bn_coefs<V> k;
  bn_load_floats<V>(k.mean, n.mean + channel);
  bn_load_floats<V>(k.bias, n.bias + channel);
  bn_load_floats<V>(k.scale, (n.invstd ? n.invstd : n.var) + channel);
  float weight[V];
  bn_load_floats<V>(weight, n.weight + channel);
  GPU_UNROLL
  for (int i = 0; i < V; i++)
    k.scale[i] = weight[i] * (n.invstd ? k.scale[i] : 1 / sqrtf(k.scale[i] + (float)n.eps));
  return k;
}

/** Returns the normalized value. It is bit-identical in forward and backward, so that backward gets
 * the sign of the ReLU's input. */
template <int V> CT_D float bn_value(const bn_coefs<V> &k, int i, float x)
{
  return fmaf(x - k.mean[i], k.scale[i], k.bias[i]);
}

/** Returns whether the ReLU passes v; like PyTorch's ReLU it passes NaN. */
CT_D bool bn_passes(float v)
{
  return !(v <= 0);
}

static inline dim3 bn_block(const gpu__bn_grid_t *g)
{
  return dim3((unsigned)g->across, (unsigned)(BN_THREADS / g->across));
}

/** Runs the statement with T the element type and V the channels per thread. */
#define BN_BY_WIDTH(g, T, V, ...)                 \
  GPU_BY_TYPE((g)->type, T,                       \
              if ((g)->width > 1) {               \
                constexpr int V = gpu_pack<T>::n; \
                __VA_ARGS__;                      \
              } else {                            \
                constexpr int V = 1;              \
                __VA_ARGS__;                      \
              })

#endif
