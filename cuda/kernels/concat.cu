/* Parts of rows: concatenation, extraction (gradient of concatenation), placement among zeros
 * (gradient of a selection); and building a token sequence from patches. */
#include "cuda/kernels/concat.h"

#include "cuda/kernels/vec_access.h"

enum { THREADS = 256 };

/* Rows in units of W elements: a part of `count` units, starting at `first`, of rows of `all`
 * units. */
struct rows_t {
  int64_t rows, all, first, count;
};

template <class T, int W>
CT_KERNEL void join(rows_t r, const gpu_vec<T, W> *x, const gpu_vec<T, W> *x2, gpu_vec<T, W> *y)
{
  GPU_LOOP (i, r.rows * r.all) {
    int64_t row = i / r.all, c = i % r.all;
    y[i] = c < r.count ? x[row * r.count + c] : x2[row * (r.all - r.count) + c - r.count];
  }
}

template <class T, int W>
CT_KERNEL void part(rows_t r, const gpu_vec<T, W> *x, const gpu_vec<T, W> *x2, gpu_vec<T, W> *y)
{
  GPU_LOOP (i, r.rows * r.count) {
    int64_t from = i / r.count * r.all + r.first + i % r.count;
    gpu_vec<T, W> v = x[from];
    for (int k = 0; x2 && k < W; k++)
      gpu_store(&v.v[k], gpu_load(&v.v[k]) + gpu_load(&x2[from].v[k]));
    y[i] = v;
  }
}

template <class T, int W> CT_KERNEL void pad(rows_t r, const gpu_vec<T, W> *x, gpu_vec<T, W> *y)
{
  const gpu_vec<T, W> zero = {};
  GPU_LOOP (i, r.rows * r.all) {
    int64_t row = i / r.all, c = i % r.all - r.first;
    y[i] = c >= 0 && c < r.count ? x[row * r.count + c] : zero;
  }
}

template <class T, int W>
CT_KERNEL void tokens(int64_t batch, int64_t patches, int64_t wide, const gpu_vec<T, W> *x,
                      const float *class_token, const float *position, gpu_vec<T, W> *y)
{
  const int64_t sample = (1 + patches) * wide;
  GPU_LOOP (i, batch * sample) {
    int64_t n = i / sample, e = i % sample;
    gpu_vec<T, W> v = {};
    if (e >= wide) v = x[n * patches * wide + e - wide];
    for (int k = 0; k < W; k++) {
      float token = e < wide ? class_token[e * W + k] : gpu_load(&v.v[k]);
      gpu_store(&v.v[k], token + position[e * W + k]);
    }
    y[i] = v;
  }
}

/* Rows in units of W elements: x has `rows` rows for each sample, y `all`. */
template <class T, int W>
CT_KERNEL void append(int64_t batch, int64_t rows, int64_t all, int64_t wide,
                      const int32_t *position, const gpu_vec<T, W> *x, gpu_vec<T, W> *y)
{
  GPU_LOOP (i, batch * rows * wide) {
    int64_t n = i / (rows * wide), place = (position ? position[n] : 0) + i / wide % rows;
    if (place >= 0 && place < all) y[(n * all + place) * wide + i % wide] = x[i];
  }
}

/* Runs the statement with W elements at a time: a pack if all lengths and addresses are multiples
 * of a pack, else 1. */
#define BY_WIDTH(T, fits, W, ...)     \
  if (fits) {                         \
    constexpr int W = gpu_pack<T>::n; \
    __VA_ARGS__;                      \
  } else {                            \
    constexpr int W = 1;              \
    __VA_ARGS__;                      \
  }

template <class T>
static int fit(int64_t a, int64_t b, int64_t c, const void *x, const void *x2, const void *y)
{
  return (a | b | c) % gpu_pack<T>::n == 0 && gpu_is_aligned(x) && gpu_is_aligned(x2) &&
         gpu_is_aligned(y);
}

extern "C" cudaError_t gpu__join(ct_dtype_t type, int64_t rows, int64_t one, int64_t two,
                                 const void *x, const void *x2, void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, BY_WIDTH(T, fit<T>(one, two, 0, x, x2, y), W, {
                typedef gpu_vec<T, W> vec;
                rows_t r = {rows, (one + two) / W, 0, one / W};
                CT_LAUNCH((join<T, W>), gpu_grid(r.rows * r.all, THREADS), THREADS, stream, r,
                          (const vec *)x, (const vec *)x2, (vec *)y);
              }))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__part(ct_dtype_t type, int64_t rows, int64_t all, int64_t first,
                                 int64_t count, const void *x, const void *x2, void *y,
                                 cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, BY_WIDTH(T, fit<T>(all, first, count, x, x2, y), W, {
                typedef gpu_vec<T, W> vec;
                rows_t r = {rows, all / W, first / W, count / W};
                CT_LAUNCH((part<T, W>), gpu_grid(r.rows * r.count, THREADS), THREADS, stream, r,
                          (const vec *)x, (const vec *)x2, (vec *)y);
              }))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__pad_columns(ct_dtype_t type, int64_t rows, int64_t all, int64_t first,
                                        int64_t count, const void *x, void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, BY_WIDTH(T, fit<T>(all, first, count, x, y, y), W, {
                typedef gpu_vec<T, W> vec;
                rows_t r = {rows, all / W, first / W, count / W};
                CT_LAUNCH((pad<T, W>), gpu_grid(r.rows * r.all, THREADS), THREADS, stream, r,
                          (const vec *)x, (vec *)y);
              }))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__tokens(ct_dtype_t type, int64_t batch, int64_t patches, int64_t wide,
                                   const void *x, const float *class_token, const float *position,
                                   void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, BY_WIDTH(T, fit<T>(wide, wide, wide, x, y, y), W, {
                typedef gpu_vec<T, W> vec;
                int64_t n = batch * (1 + patches) * wide / W;
                CT_LAUNCH((tokens<T, W>), gpu_grid(n, THREADS), THREADS, stream, batch, patches,
                          wide / W, (const vec *)x, class_token, position, (vec *)y);
              }))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__append(ct_dtype_t type, const int64_t *dim, int64_t size,
                                   const int32_t *position, const void *x, void *y,
                                   cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, BY_WIDTH(T, fit<T>(dim[2], dim[2], dim[2], x, y, y), W, {
                typedef gpu_vec<T, W> vec;
                int64_t wide = dim[2] / W;
                CT_LAUNCH((append<T, W>), gpu_grid(dim[0] * dim[1] * wide, THREADS), THREADS,
                          stream, dim[0], dim[1], size, wide, position, (const vec *)x, (vec *)y);
              }))
  return cudaGetLastError();
}
