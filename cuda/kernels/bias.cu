/* Bias and ReLU after a matrix product, and column sums, which are the gradient of a bias. Rows are
 * summed in chunks whose number depends only on the shape: results are bit-identical in every
 * run. */
#include "cuda/kernels/bias.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256, CHUNKS = 256, CHUNK_ROWS = 64 };

/* Returns 1 if packs (16 bytes) can be used instead of single elements. */
template <class T> static int by_packs(const void *p, int64_t channels)
{
  return gpu_is_aligned(p) && channels % gpu_pack<T>::n == 0;
}

/* ---- bias and ReLU ---- */

CT_D float relu_of(float v)
{
  return v <= 0 ? 0 : v; /* NaN stays NaN */
}

template <class T> CT_D float biased(const T *y, const T *bias, int relu)
{
  float v = gpu_load(y) + (bias ? gpu_load(bias) : 0);
  return relu ? relu_of(v) : v;
}

/* Adds the bias. A thread's channel advances by the same step each time, which avoids divisions. */
template <class T>
CT_KERNEL void bias_relu(int64_t n, int64_t channels, T *y, const T *bias, int relu)
{
  int64_t c = gpu_first() % channels, step = gpu_stride() % channels;
  GPU_LOOP (i, n) {
    gpu_store(&y[i], biased(&y[i], bias ? &bias[c] : bias, relu));
    c += step;
    if (c >= channels) c -= channels;
  }
}

template <class T>
CT_KERNEL void bias_relu_packs(int64_t n, int64_t channels, T *y, const T *bias, int relu)
{
  constexpr int width = gpu_pack<T>::n;
  int64_t c = gpu_first() % channels, step = gpu_stride() % channels;
  GPU_LOOP (i, n) {
    gpu_pack<T> v = gpu_load_pack(y + i * width), b = {};
    if (bias) b = gpu_load_pack(bias + c * width);
    for (int k = 0; k < width; k++)
      gpu_store(&v.v[k], biased(&v.v[k], &b.v[k], relu));
    gpu_store_pack(y + i * width, v);
    c += step;
    if (c >= channels) c -= channels;
  }
}

template <class T>
static cudaError_t launch_bias(int64_t rows, int64_t channels, T *y, const T *bias, int relu,
                               cudaStream_t s)
{
  int64_t n = rows * channels, width = gpu_pack<T>::n;
  if (n == 0) return cudaSuccess;
  if (by_packs<T>(y, channels) && gpu_is_aligned(bias))
    CT_LAUNCH(bias_relu_packs<T>, gpu_grid(n / width, THREADS), THREADS, s, n / width,
              channels / width, y, bias, relu);
  else
    CT_LAUNCH(bias_relu<T>, gpu_grid(n, THREADS), THREADS, s, n, channels, y, bias, relu);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__bias_relu(ct_dtype_t type, void *y, const void *bias, int relu,
                                      int64_t rows, int64_t channels, cudaStream_t s)
{
  GPU_BY_TYPE(type, T, return launch_bias(rows, channels, (T *)y, (const T *)bias, relu, s))
  return cudaSuccess;
}

/* ---- column sums ---- */

/* Adds W elements: one pack, or a single element. */
template <class T, int W> CT_D void add_to(float sum[W], const T *from)
{
  if constexpr (W == 1) {
    sum[0] += gpu_load(from);
  } else {
    gpu_pack<T> v = gpu_load_pack(from);
    for (int k = 0; k < W; k++)
      sum[k] += gpu_load(&v.v[k]);
  }
}

/* A block sums one chunk of the rows for blockDim.x times W columns: blockDim.y rows in parallel, a
 * power of two, which are then added pairwise. part: [W][threads], so that adjacent threads use
 * different banks. */
template <class T, int W>
CT_KERNEL void column_sums(int64_t rows, int64_t channels, int64_t chunk, const T *dy, float *out)
{
  CT_SHARED(float, part, THREADS *W);
  int64_t c = gpu_first() * W, first = blockIdx.y * chunk;
  int64_t end = first + chunk < rows ? first + chunk : rows;
  float sum[W] = {};
  float *mine = part + gpu_thread();
  if (c < channels)
    for (int64_t r = first + threadIdx.y; r < end; r += blockDim.y)
      add_to<T, W>(sum, dy + r * channels + c);
  for (int k = 0; k < W; k++)
    mine[k * THREADS] = sum[k];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int k = 0; k < W; k++)
        mine[k * THREADS] += mine[k * THREADS + half * blockDim.x];
  }
  if (threadIdx.y > 0 || c >= channels) return;
  for (int k = 0; k < W; k++)
    out[blockIdx.y * channels + c + k] = mine[k * THREADS];
}

static int64_t chunks_of(int64_t rows)
{
  int64_t n = (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
  return n < 1 ? 1 : n < CHUNKS ? n : (int64_t)CHUNKS;
}

/* Sums the chunks; output: out[chunks][channels]. */
template <class T, int W>
static cudaError_t launch_sums(int64_t rows, int64_t channels, int64_t chunks, const T *dy,
                               float *out, cudaStream_t s)
{
  unsigned across = 1;
  while (across < GPU_WARP && across * W < channels)
    across *= 2;
  dim3 block(across, THREADS / across);
  dim3 grid((unsigned)((channels + across * W - 1) / (across * W)), (unsigned)chunks);
  CT_LAUNCH((column_sums<T, W>), grid, block, s, rows, channels, (rows + chunks - 1) / chunks, dy,
            out);
  return cudaGetLastError();
}

template <class T>
static cudaError_t sums(int64_t rows, int64_t channels, int64_t chunks, const T *dy, float *out,
                        cudaStream_t s)
{
  if (by_packs<T>(dy, channels))
    return launch_sums<T, gpu_pack<T>::n>(rows, channels, chunks, dy, out, s);
  return launch_sums<T, 1>(rows, channels, chunks, dy, out, s);
}

extern "C" size_t gpu__column_sums_scratch(int64_t rows, int64_t channels)
{
  int64_t chunks = chunks_of(rows);
  return chunks > 1 ? (size_t)(chunks * channels) * sizeof(float) : 0;
}

/* Sums chunks of rows first, then the chunks. */
extern "C" cudaError_t gpu__column_sums(ct_dtype_t type, const void *dy, int64_t rows,
                                        int64_t channels, float *out, void *scratch, cudaStream_t s)
{
  int64_t chunks = chunks_of(rows);
  float *first = chunks > 1 ? (float *)scratch : out;
  cudaError_t e = cudaSuccess;
  if (channels == 0) return e;
  GPU_BY_TYPE(type, T, e = sums(rows, channels, chunks, (const T *)dy, first, s))
  if (e == cudaSuccess && chunks > 1) e = sums(chunks, channels, 1, first, out, s);
  return e;
}
