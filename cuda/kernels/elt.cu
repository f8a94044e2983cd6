/* Elementwise ReLU, sums and casts, in packs of 16 bytes; limited by memory bandwidth. */
#include "cuda/kernels/elt.h"

#include "cuda/kernels/map.h"

/* PyTorch's ReLU: NaN stays NaN. */
struct sum {
  CT_METHOD float operator()(float a, float b, float) const
  {
    return a + b;
  }
};

struct sum_relu {
  CT_METHOD float operator()(float a, float b, float) const
  {
    return a + b <= 0 ? 0 : a + b;
  }
};

struct masked {
  CT_METHOD float operator()(float dy, float dy2, float y) const
  {
    return y <= 0 ? 0 : dy + dy2;
  }
};

extern "C" cudaError_t gpu__sum(ct_dtype_t type, int64_t n, const void *a, const void *b, int relu,
                                void *y, cudaStream_t stream)
{
  if (relu)
    GPU_BY_TYPE(type, T, return gpu_map<T>(n, a, b, nullptr, y, sum_relu{}, stream))
  else
    GPU_BY_TYPE(type, T, return gpu_map<T>(n, a, b, nullptr, y, sum{}, stream))
  return cudaSuccess;
}

extern "C" cudaError_t gpu__masked_sum(ct_dtype_t type, int64_t n, const void *dy, const void *dy2,
                                       const void *y, void *dx, cudaStream_t stream)
{
  if (!y) return gpu__sum(type, n, dy, dy2, 0, dx, stream);
  GPU_BY_TYPE(type, T, return gpu_map<T>(n, dy, dy2, y, dx, masked{}, stream))
  return cudaSuccess;
}

/* ---- casts ---- */

/* Not vectorized, since packs of different width would be a special case; a warp's accesses are
 * contiguous anyway. */
template <class From, class To> CT_KERNEL void cast(int64_t n, const From *x, To *y)
{
  GPU_LOOP (i, n)
    gpu_store(&y[i], gpu_load(&x[i]));
}

extern "C" cudaError_t gpu__cast(ct_dtype_t from, ct_dtype_t to, int64_t n, const void *x, void *y,
                                 cudaStream_t stream)
{
  if (n == 0) return cudaSuccess;
  GPU_BY_TYPE(from, From,
              GPU_BY_TYPE(to, To,
                          CT_LAUNCH((cast<From, To>), gpu_grid(n, 256), 256, stream, n,
                                    (const From *)x, (To *)y)))
  return cudaGetLastError();
}
