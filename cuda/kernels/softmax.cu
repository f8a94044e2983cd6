/* Softmax: see softmax.h. */
#include "cuda/kernels/softmax.h"
#include "cuda/kernels/rows.h"

enum { BLOCK = 256 };

/* The largest value; unlike gpu_larger(), NaN need not win: the sum of exponentials is NaN then. */
CT_D float top_of(float a, float b)
{
  return a > b ? a : b;
}

CT_D float warp_top(float v)
{
  for (int away = GPU_WARP / 2; away > 0; away /= 2)
    v = top_of(v, __shfl_xor_sync(0xffffffffu, v, away));
  return v;
}

template <class T> CT_KERNEL void softmax_rows(gpu__softmax_t d, const T *x, T *y)
{
  GPU_WARP_ROWS (r, d.outer) {
    const T *from = x + r * d.count;
    T *to = y + r * d.count;
    float top = -INFINITY, sum = 0;
    GPU_LANES (i, d.count)
      top = top_of(gpu_load(from + i) * d.scale, top);
    top = warp_top(top);
    GPU_LANES (i, d.count)
      sum += expf(gpu_load(from + i) * d.scale - top);
    sum = gpu_warp_sum(sum);
    float less = logf(sum), share = 1 / sum;
    GPU_LANES (i, d.count) {
      float v = gpu_load(from + i) * d.scale - top;
      gpu_store(to + i, d.log_of ? v - less : expf(v) * share);
    }
  }
}

template <class T> CT_KERNEL void softmax_columns(gpu__softmax_t d, const T *x, T *y)
{
  GPU_LOOP (c, d.outer * d.inner) {
    int64_t at = c / d.inner * d.count * d.inner + c % d.inner;
    float top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < d.count; k++)
      top = top_of(gpu_load(x + at + k * d.inner), top);
    for (int64_t k = 0; k < d.count; k++)
      sum += expf(gpu_load(x + at + k * d.inner) - top);
    float less = logf(sum), share = 1 / sum;
    for (int64_t k = 0; k < d.count; k++) {
      float v = gpu_load(x + at + k * d.inner) - top;
      gpu_store(y + at + k * d.inner, d.log_of ? v - less : expf(v) * share);
    }
  }
}

CT_D float term(const gpu__softmax_t &d, float y, float g)
{
  return d.log_of ? g : y * g;
}

CT_D float slope(const gpu__softmax_t &d, float y, float g, float sum)
{
  return d.log_of ? g - expf(y) * sum : y * (g - sum) * d.scale;
}

template <class T> CT_KERNEL void slopes_rows(gpu__softmax_t d, const T *y, const T *dy, T *dx)
{
  GPU_WARP_ROWS (r, d.outer) {
    int64_t at = r * d.count;
    float sum = 0;
    GPU_LANES (i, d.count)
      sum += term(d, gpu_load(y + at + i), gpu_load(dy + at + i));
    sum = gpu_warp_sum(sum);
    GPU_LANES (i, d.count)
      gpu_store(dx + at + i, slope(d, gpu_load(y + at + i), gpu_load(dy + at + i), sum));
  }
}

template <class T> CT_KERNEL void slopes_columns(gpu__softmax_t d, const T *y, const T *dy, T *dx)
{
  GPU_LOOP (c, d.outer * d.inner) {
    int64_t at = c / d.inner * d.count * d.inner + c % d.inner;
    float sum = 0;
    for (int64_t k = 0; k < d.count; k++)
      sum += term(d, gpu_load(y + at + k * d.inner), gpu_load(dy + at + k * d.inner));
    for (int64_t k = 0; k < d.count; k++) {
      int64_t i = at + k * d.inner;
      gpu_store(dx + i, slope(d, gpu_load(y + i), gpu_load(dy + i), sum));
    }
  }
}

extern "C" cudaError_t gpu__softmax(ct_dtype_t type, const gpu__softmax_t *d, const void *x,
                                    void *y, cudaStream_t stream)
{
  int64_t columns = d->outer * d->inner;
  if (d->inner == 1)
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(softmax_rows<T>, gpu_grid(d->outer, BLOCK / GPU_WARP), BLOCK, stream, *d,
                          (const T *)x, (T *)y))
  else
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(softmax_columns<T>, gpu_grid(columns, BLOCK), BLOCK, stream, *d,
                          (const T *)x, (T *)y))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__softmax_back(ct_dtype_t type, const gpu__softmax_t *d, const void *y,
                                         const void *dy, void *dx, cudaStream_t stream)
{
  int64_t columns = d->outer * d->inner;
  if (d->inner == 1)
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(slopes_rows<T>, gpu_grid(d->outer, BLOCK / GPU_WARP), BLOCK, stream, *d,
                          (const T *)y, (const T *)dy, (T *)dx))
  else
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(slopes_columns<T>, gpu_grid(columns, BLOCK), BLOCK, stream, *d,
                          (const T *)y, (const T *)dy, (T *)dx))
  return cudaGetLastError();
}
