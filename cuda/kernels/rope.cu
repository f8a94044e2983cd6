/* Places in sequences, and rotation by them: see rope.h. A thread rotates one pair of features in
 * all heads of a row, so that it computes one angle. */
#include "cuda/kernels/rope.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256 };

CT_KERNEL void places(int64_t n, int64_t steps, const int32_t *position, const float *first,
                      float *y)
{
  GPU_LOOP (i, n * steps)
    y[i] = (float)((position ? position[i / steps] : 0) + i % steps) - (first ? first[i] : 0);
}

extern "C" cudaError_t gpu__position(int64_t n, int64_t steps, const int32_t *position,
                                     const float *first, float *y, cudaStream_t stream)
{
  CT_LAUNCH(places, gpu_grid(n * steps, THREADS), THREADS, stream, n, steps, position, first, y);
  return cudaGetLastError();
}

template <class T> CT_KERNEL void rotate(gpu__rope_t r, const T *x, T *y)
{
  const int64_t half = r.dim / 2, rotated = (int64_t)r.heads * r.dim;
  GPU_LOOP (i, r.n * r.steps * half) {
    int64_t row = i / half, pair = i % half, at = row * r.width;
    int64_t own = (r.position ? r.position[row / r.steps] : 0) + row % r.steps;
    float place = r.given ? r.given[row] : (float)own;
    float angle = place * r.frequency[pair], c = cosf(angle), s = sinf(angle);
    if (r.back) s = -s;
    if (r.keep && pair == 0) r.keep[row] = place;
    for (int64_t h = 0; h < rotated; h += r.dim) {
      int64_t p = at + h + (r.interleaved ? 2 * pair : pair), q = p + (r.interleaved ? 1 : half);
      float a = gpu_load(&x[p]), b = gpu_load(&x[q]);
      gpu_store(&y[p], a * c - b * s);
      gpu_store(&y[q], b * c + a * s);
    }
    for (int64_t k = rotated + pair; k < r.width && x != y; k += half)
      y[at + k] = x[at + k];
  }
}

extern "C" cudaError_t gpu__rotate(const gpu__rope_t *r, ct_dtype_t type, const void *x, void *y,
                                   cudaStream_t stream)
{
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(rotate<T>, gpu_grid(r->n * r->steps * (r->dim / 2), THREADS), THREADS,
                        stream, *r, (const T *)x, (T *)y));
  return cudaGetLastError();
}
