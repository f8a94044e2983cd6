/** \file bnorm_lanes.h  What the kernels of batch normalisation share: a thread's channels and
 * rows.  Module-internal.
 *
 * A block is `across` threads wide and as high as its 256 threads allow.  It goes from band to
 * band: a band is U rows of each of the block's lines.  Rows that were read last are still in the
 * cache, so the kernels that sum go from the last band to the first, to begin with what the op
 * before has written, and those that write go from the first to the last. */
#ifndef GPU_BNORM_LANES_H
#define GPU_BNORM_LANES_H
#include "cuda/kernels/bnorm.h"
#include "cuda/kernels/kernel.h"

enum {
  BN_THREADS = 256,
  BN_ONE_ROWS = 4,  /* U of the moments: one tensor is read */
  BN_BOTH_ROWS = 2, /* U where several are */
  BN_MERGE = 8      /* channels of a block of the merging kernels */
};

/** V neighbouring channels of a row. */
template <class T, int V> struct alignas(V * sizeof(T)) bn_lanes {
  T v[V];
};

/** A thread's place. */
template <int V, int U> struct bn_place {
  int64_t channel; /* the first of V */
  int64_t rows;    /* of the tensor; 0 for a thread beyond the last channel */
  int64_t bands;
  int lines; /* of the block */
};

template <int V, int U> CT_D bn_place<V, U> bn_here(const gpu__bn_grid_t &g)
{
  bn_place<V, U> p;
  p.channel = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
  p.lines = blockDim.y;
  p.rows = p.channel < g.channels ? g.rows : 0;
  p.bands = (p.rows + p.lines * U - 1) / (p.lines * U);
  return p;
}

/** The thread's first row of a band; the next are `lines` apart. */
template <int V, int U> CT_D int64_t bn_row(const bn_place<V, U> &p, int64_t band)
{
  return band * p.lines * U + threadIdx.y;
}

/** U rows of the thread's channels from \a p on, `step` elements apart.  The tensor ends after \a
 * left rows: for those beyond, zeros.  packed: 0 if p may not be aligned to packs. */
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

/** V numbers of channels. */
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

/** What is done to V channels. */
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

/** The same bits in forward and backward, so that backward sees the sign that the ReLU saw. */
template <int V> CT_D float bn_value(const bn_coefs<V> &k, int i, float x)
{
  return fmaf(x - k.mean[i], k.scale[i], k.bias[i]);
}

/** PyTorch's ReLU lets NaN pass. */
CT_D bool bn_passes(float v)
{
  return !(v <= 0);
}

static inline dim3 bn_block(const gpu__bn_grid_t *g)
{
  return dim3((unsigned)g->across, (unsigned)(BN_THREADS / g->across));
}

/** The statement with T the type and V the channels of a thread. */
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
