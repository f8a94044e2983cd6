/* Softmax of rows: see softmax.h. */
#include "cuda/kernels/softmax.h"
#include "cuda/kernels/rows.h"

enum { BLOCK = 256 };

template <class T> CT_KERNEL void softmax(int64_t rows, int64_t wide, const float *x, T *p)
{
  GPU_WARP_ROWS (r, rows) {
    const float *row = x + r * wide;
    float most = -INFINITY, sum = 0;
    GPU_LANES (i, wide)
      most = gpu_larger(most, row[i]);
    most = gpu_warp_max(most);
    GPU_LANES (i, wide)
      sum += expf(row[i] - most);
    sum = gpu_warp_sum(sum);
    GPU_LANES (i, wide)
      gpu_store(&p[r * wide + i], expf(row[i] - most) / sum);
  }
}

template <class T>
CT_KERNEL void softmax_backward(int64_t rows, int64_t wide, const T *p, const float *dp, T *dx)
{
  GPU_WARP_ROWS (r, rows) {
    const T *p_row = p + r * wide;
    const float *dp_row = dp + r * wide;
    float mean = 0;
    GPU_LANES (i, wide)
      mean += gpu_load(&p_row[i]) * dp_row[i];
    mean = gpu_warp_sum(mean);
    GPU_LANES (i, wide)
      gpu_store(&dx[r * wide + i], gpu_load(&p_row[i]) * (dp_row[i] - mean));
  }
}

extern "C" cudaError_t gpu__softmax(ct_dtype_t type, int64_t rows, int64_t wide, const float *x,
                                    void *p, cudaStream_t stream)
{
  unsigned grid = gpu_grid(rows, BLOCK / GPU_WARP);
  GPU_BY_TYPE(type, T, CT_LAUNCH(softmax<T>, grid, BLOCK, stream, rows, wide, x, (T *)p));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__softmax_backward(ct_dtype_t type, int64_t rows, int64_t wide,
                                             const void *p, const float *dp, void *dx,
                                             cudaStream_t stream)
{
  unsigned grid = gpu_grid(rows, BLOCK / GPU_WARP);
  GPU_BY_TYPE(
      type, T,
      CT_LAUNCH(softmax_backward<T>, grid, BLOCK, stream, rows, wide, (const T *)p, dp, (T *)dx));
  return cudaGetLastError();
}
