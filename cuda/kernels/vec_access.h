/** \file vec_access.h  Adjacent elements, loaded or stored at once. Module-internal. */
#ifndef GPU_VEC_ACCESS_H
#define GPU_VEC_ACCESS_H
#include "cuda/kernels/kernel.h"

/** A vector of N elements; N is a power of two, and the vector has at most 16 bytes. */
template <class T, int N> struct alignas(N * sizeof(T)) gpu_vec {
  T v[N];
};

/** Returns 1 if p, which may be NULL, is aligned for gpu_vec<T, N>. */
template <class T, int N> static inline int gpu_vec_fit(const void *p)
{
  return (uintptr_t)p % sizeof(gpu_vec<T, N>) == 0;
}

/** Loads W elements as floats: W is 1, or a multiple of gpu_pack<T>::n with p aligned to 16
 * bytes. */
template <class T, int W> CT_D void gpu_load_floats(float v[W], const T *p)
{
  if constexpr (W == 1) {
    v[0] = gpu_load(p);
  } else {
    constexpr int width = gpu_pack<T>::n;
    for (int k = 0; k < W; k += width) {
      gpu_pack<T> q = gpu_load_pack(p + k);
      for (int i = 0; i < width; i++)
        v[k + i] = gpu_load(&q.v[i]);
    }
  }
}

/** Stores W floats as elements, each rounded once; W and p as for gpu_load_floats(). */
template <class T, int W> CT_D void gpu_store_floats(T *p, const float v[W])
{
  if constexpr (W == 1) {
    gpu_store(p, v[0]);
  } else {
    constexpr int width = gpu_pack<T>::n;
    for (int k = 0; k < W; k += width) {
      gpu_pack<T> q;
      for (int i = 0; i < width; i++)
        gpu_store(&q.v[i], v[k + i]);
      gpu_store_pack(p + k, q);
    }
  }
}

#endif
