/** \file kernel.h  Macros and helpers in which the kernels are written.
 *
 * The same .cu file is compiled by nvcc for GPUs and by the host's C++ compiler for the emulator of
 * tests/cuda/emu, which finds missing barriers and out-of-bounds accesses on machines without a
 * GPU. All differences between the two are in this file:
 *
 *     template <class T> CT_KERNEL void relu(int64_t n, const T *x, T *y)
 *     {
 *       GPU_LOOP (i, n)
 *         gpu_store(&y[i], fmaxf(gpu_load(&x[i]), 0));
 *     }
 *
 *     extern "C" cudaError_t gpu__relu(ct_dtype_t type, int64_t n, const void *x, void *y,
 *                                      cudaStream_t stream)
 *     {
 *       GPU_BY_TYPE(type, T,
 *                   CT_LAUNCH(relu<T>, gpu_grid(n, 256), 256, stream, n, (const T *)x, (T *)y));
 *       return cudaGetLastError();
 *     }
 *
 * Launches have no dynamic shared memory. Blocks that use warps (shuffles, gpu_warp_sum and so on)
 * have a multiple of 32 threads. Kernel names with a comma need parentheses: CT_LAUNCH((pool<T,
 * 3>), …). */
#ifndef GPU_KERNEL_H
#define GPU_KERNEL_H
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/ct_types.h"

#ifdef __CUDACC__
#  include <cuda_bf16.h>
#  include <cuda_fp16.h>
#  define CT_KERNEL static __global__
#  define CT_D      static __device__ __forceinline__
#  define CT_HD     static __host__ __device__ __forceinline__
/** Shared memory of a block: an array of n (a constant) elements T. */
#  define CT_SHARED(T, name, n) __shared__ T name[n]
/** Launches a kernel; cudaGetLastError() returns launch errors. */
#  define CT_LAUNCH(kernel, grid, block, stream, ...) \
    kernel<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__)
/** Unrolls a loop. Used before loops of constant length whose arrays must stay in registers. */
#  define GPU_UNROLL _Pragma("unroll")
#else
#  define GPU_UNROLL
#  include CT_KERNEL_HOST /* a header that defines these for the host's compiler */
#endif

static constexpr int GPU_WARP = 32;
/* Blocks of gpu_grid(): more than any GPU holds at a time. Few on the emulator, so that small
 * arrays need the kernels' loops. */
#ifdef __CUDACC__
static constexpr int GPU_MAX_GRID = 8192;
#else
static constexpr int GPU_MAX_GRID = 16;
#endif
static constexpr int GPU_PACK_BYTES = 16; /* the widest load */

/** Returns the number of blocks of `block` threads for n work items, capped at some thousands;
 * kernels loop with GPU_LOOP. */
static inline unsigned gpu_grid(int64_t n, int64_t block)
{
  int64_t blocks = n > 0 ? (n - 1) / block + 1 : 1;
  return (unsigned)(blocks < GPU_MAX_GRID ? blocks : GPU_MAX_GRID);
}

/** This thread's index in the grid, and the number of threads in the grid (x only). */
CT_D int64_t gpu_first()
{
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
CT_D int64_t gpu_stride()
{
  return (int64_t)gridDim.x * blockDim.x;
}
/** The threads of the grid share the iterations i = 0 … n - 1. */
#define GPU_LOOP(i, n) for (int64_t i = gpu_first(); i < (n); i += gpu_stride())

/* ---- types ---- */

/** Storage of reduced-precision types; arithmetic is in float. */
struct gpu_f16 {
  uint16_t bits;
};
struct gpu_bf16 {
  uint16_t bits;
};

/** Returns the value of an element as float. */
CT_D float gpu_load(const float *p)
{
  return *p;
}
CT_D float gpu_load(const gpu_f16 *p)
{
#ifdef __CUDACC__
  return __half2float(__ushort_as_half(p->bits));
#else
  return emu_f16_float(p->bits);
#endif
}
CT_D float gpu_load(const gpu_bf16 *p)
{
#ifdef __CUDACC__
  return __bfloat162float(__ushort_as_bfloat16(p->bits));
#else
  return ct_bf16_float(p->bits);
#endif
}

/** Stores v as an element, rounded to nearest, ties to even. */
CT_D void gpu_store(float *p, float v)
{
  *p = v;
}
CT_D void gpu_store(gpu_f16 *p, float v)
{
#ifdef __CUDACC__
  p->bits = __half_as_ushort(__float2half_rn(v));
#else
  p->bits = emu_f16_of(v);
#endif
}
CT_D void gpu_store(gpu_bf16 *p, float v)
{
#ifdef __CUDACC__
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
#else
  p->bits = emu_bf16_of(v);
#endif
}

/** 16 bytes of elements, loaded or stored at once; access elements by gpu_load(&pack.v[i]). */
template <class T> struct alignas(GPU_PACK_BYTES) gpu_pack {
  static constexpr int n = GPU_PACK_BYTES / (int)sizeof(T);
  T v[n];
};

/** Loads a pack; \a p is aligned to 16 bytes. */
template <class T> CT_D gpu_pack<T> gpu_load_pack(const T *p)
{
#ifndef __CUDACC__
  emu_aligned(p, GPU_PACK_BYTES);
#endif
  return *reinterpret_cast<const gpu_pack<T> *>(p);
}
template <class T> CT_D void gpu_store_pack(T *p, const gpu_pack<T> &pack)
{
#ifndef __CUDACC__
  emu_aligned(p, GPU_PACK_BYTES);
#endif
  *reinterpret_cast<gpu_pack<T> *>(p) = pack;
}

/** Returns 1 if packs may be loaded from p, which may be NULL. */
static inline int gpu_is_aligned(const void *p)
{
  return (uintptr_t)p % GPU_PACK_BYTES == 0;
}

/** Runs the statement with T = float, gpu_bf16 or gpu_f16. Use it in functions that return
 * cudaError_t: other dtypes return cudaErrorInvalidValue. */
#define GPU_BY_TYPE(dtype, T, ...) \
  switch (dtype) {                 \
  case CT_F32: {                   \
    typedef float T;               \
    __VA_ARGS__;                   \
    break;                         \
  }                                \
  case CT_BF16: {                  \
    typedef gpu_bf16 T;            \
    __VA_ARGS__;                   \
    break;                         \
  }                                \
  case CT_F16: {                   \
    typedef gpu_f16 T;             \
    __VA_ARGS__;                   \
    break;                         \
  }                                \
  default:                         \
    return cudaErrorInvalidValue;  \
  }

/* ---- sums and maxima in a fixed order: bit-identical in every run ---- */

/** Returns this thread's index in its block. */
CT_D int gpu_thread()
{
  return (int)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
CT_D int gpu_threads()
{
  return (int)(blockDim.x * blockDim.y * blockDim.z);
}

/** Returns the sum over the 32 lanes (threads) of a warp, in every lane. */
template <class T> CT_D T gpu_warp_sum(T v)
{
  for (int away = GPU_WARP / 2; away > 0; away /= 2)
    v += __shfl_xor_sync(0xffffffffu, v, away);
  return v;
}
/** Returns the larger of a and b; NaN if one is NaN, as PyTorch's max. */
CT_D float gpu_larger(float a, float b)
{
  return a > b || a != a ? a : b;
}
CT_D float gpu_warp_max(float v)
{
  for (int away = GPU_WARP / 2; away > 0; away /= 2)
    v = gpu_larger(v, __shfl_xor_sync(0xffffffffu, v, away));
  return v;
}

/** Returns the sum over all threads of a block, in every thread; every thread must call it. T:
 * float, double or an integer type. */
template <class T> CT_D T gpu_block_sum(T v)
{
  CT_SHARED(T, part, GPU_WARP);
  int thread = gpu_thread(), warps = gpu_threads() / GPU_WARP;
  v = gpu_warp_sum(v);
  __syncthreads(); /* the previous sum has been read */
  if (thread % GPU_WARP == 0) part[thread / GPU_WARP] = v;
  __syncthreads();
  T sum = part[0];
  for (int i = 1; i < warps; i++)
    sum += part[i];
  return sum;
}
CT_D float gpu_block_max(float v)
{
  CT_SHARED(float, part, GPU_WARP);
  int thread = gpu_thread(), warps = gpu_threads() / GPU_WARP;
  v = gpu_warp_max(v);
  __syncthreads();
  if (thread % GPU_WARP == 0) part[thread / GPU_WARP] = v;
  __syncthreads();
  float max = part[0];
  for (int i = 1; i < warps; i++)
    max = gpu_larger(max, part[i]);
  return max;
}

#endif
