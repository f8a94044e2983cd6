/** \file vec_access.h  A few elements that lie side by side, moved at once.  Module-internal. */
#ifndef GPU_FEW_H
#define GPU_FEW_H
#include "cuda/kernels/kernel.h"

/** N, a power of two; at most 16 bytes. */
template <class T, int N> struct alignas(N * sizeof(T)) gpu_few {
  T v[N];
};

/** 1 if the address p is one of gpu_few<T, N> (NULL is fine). */
template <class T, int N> static inline int gpu_few_fit(const void *p)
{
  return (uintptr_t)p % sizeof(gpu_few<T, N>) == 0;
}

#endif
