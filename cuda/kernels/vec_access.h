/** \file vec_access.h  A small vector of adjacent elements, loaded or stored at once.
 * Module-internal. */
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

#endif
