/* Depthwise convolutions. They cannot be written as efficient matrix products; memory bandwidth is
 * the limit, and cuDNN is far from it. */
#include "cuda/kernels/depthwise.h"

#include "cuda/kernels/bias.h"
#include "cuda/kernels/kernel.h"

/* A block has blockDim.x threads for up to CHANNELS channels, W each, and blockDim.y rows of
 * threads for different pixels. blockIdx.y selects the group of channels. */
enum { THREADS = 256, CHANNELS = 64, STRIP = 4, TAPS = 9, MAX_CHUNKS = 512, CHUNK_PIXELS = 512 };

/* W elements as floats: one pack, or a single element. */
template <class T, int W> struct vec {
  float v[W];
};

template <class T, int W> CT_D vec<T, W> load(const T *p)
{
  vec<T, W> out;
  if constexpr (W == 1) {
    out.v[0] = gpu_load(p);
  } else {
    gpu_pack<T> pack = gpu_load_pack(p);
    for (int k = 0; k < W; k++)
      out.v[k] = gpu_load(&pack.v[k]);
  }
  return out;
}

template <class T, int W> CT_D void store(T *p, const float v[W])
{
  if constexpr (W == 1) {
    gpu_store(p, v[0]);
  } else {
    gpu_pack<T> pack;
    for (int k = 0; k < W; k++)
      gpu_store(&pack.v[k], v[k]);
    gpu_store_pack(p, pack);
  }
}

/* ---- forward, backward data ---- */

/* Returns, along one axis, the index of the input that contributes to output `at` through a tap
 * (filter element); -1: padding. BACK: returns the output to which input `at` contributes. */
template <bool BACK> CT_D int source(const gpu__depthwise_t &d, int dir, int at, int tap)
{
  int offset = tap * d.dilate[dir] - d.pad[dir];
  if (!BACK) {
    int i = at * d.stride[dir] + offset;
    return i < d.in[dir] ? i : -1;
  }
  int i = at - offset;
  if (i < 0 || d.stride[dir] == 1) return i < d.out[dir] ? i : -1;
  return i % d.stride[dir] == 0 && i / d.stride[dir] < d.out[dir] ? i / d.stride[dir] : -1;
}

/* Loads the filters of the block's channels, [tap][channel]. */
template <class T>
CT_D void load_filters(const gpu__depthwise_t &d, const T *w, int64_t first, int width,
                       float *filter)
{
  int taps = d.kernel[0] * d.kernel[1];
  for (int i = gpu_thread(); i < taps * width; i += gpu_threads())
    if (first + i / taps < d.channels)
      filter[i % taps * width + i / taps] = gpu_load(&w[first * taps + i]);
  __syncthreads();
}

template <class T> struct operands {
  const T *from, *w, *bias;
  T *to;
  int relu;
};

/* Computes the sums of a strip: STRIP pixels of a line, starting at (a, b), of the image at
 * `from`. */
template <class T, int W, bool BACK>
CT_D void sum_strip(const gpu__depthwise_t &d, const T *from, const float *filter, int width, int a,
                    int b, float sum[STRIP][W])
{
  int line = BACK ? d.out[1] : d.in[1];
  for (int i = 0; i < d.kernel[0]; i++) {
    int row = source<BACK>(d, 0, a, i);
    if (row < 0) continue;
    for (int j = 0; j < d.kernel[1]; j++) {
      const float *w = filter + (i * d.kernel[1] + j) * width;
      for (int t = 0; t < STRIP; t++) {
        int column = source<BACK>(d, 1, b + t, j);
        if (column < 0) continue;
        vec<T, W> x = load<T, W>(from + ((int64_t)row * line + column) * d.channels);
        for (int k = 0; k < W; k++)
          sum[t][k] += x.v[k] * w[k];
      }
    }
  }
}

template <class T, int W, bool BACK>
CT_KERNEL void convolve(gpu__depthwise_t d, int64_t strips, operands<T> o)
{
  CT_SHARED(float, filter, GPU_DEPTHWISE_TAPS *CHANNELS);
  const int *size = BACK ? d.in : d.out, *under = BACK ? d.out : d.in;
  int width = (int)blockDim.x * W, along = (size[1] + STRIP - 1) / STRIP;
  int64_t first = (int64_t)blockIdx.y * width, c = first + (int64_t)threadIdx.x * W;
  load_filters(d, o.w, first, width, filter);
  if (c >= d.channels) return;
  vec<T, W> bias = {};
  if (o.bias) bias = load<T, W>(o.bias + c);
  for (int64_t s = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; s < strips;
       s += (int64_t)gridDim.x * blockDim.y) {
    int b = (int)(s % along) * STRIP, a = (int)(s / along % size[0]);
    int64_t image = s / along / size[0];
    float sum[STRIP][W];
    for (int t = 0; t < STRIP; t++)
      for (int k = 0; k < W; k++)
        sum[t][k] = bias.v[k];
    sum_strip<T, W, BACK>(d, o.from + image * under[0] * under[1] * d.channels + c,
                          filter + threadIdx.x * W, width, a, b, sum);
    T *to = o.to + ((image * size[0] + a) * size[1] + b) * d.channels + c;
    for (int t = 0; t < STRIP && b + t < size[1]; t++, to += d.channels) {
      for (int k = 0; k < W && o.relu; k++)
        sum[t][k] = sum[t][k] <= 0 ? 0 : sum[t][k]; /* NaN stays NaN */
      store<T, W>(to, sum[t]);
    }
  }
}

/* ---- backward weight ---- */

/* A thread's partial sums for TAPS taps, starting with tap `first`. */
template <class T, int W>
CT_D void sum_taps(const gpu__depthwise_t &d, int first, const T *x, const T *dy, int64_t begin,
                   int64_t end, float sum[TAPS][W])
{
  int taps = d.kernel[0] * d.kernel[1];
  int64_t plane = (int64_t)d.out[0] * d.out[1];
  for (int64_t p = begin + threadIdx.y; p < end; p += blockDim.y) {
    int at = (int)(p % plane), a = at / d.out[1], b = at % d.out[1];
    const T *image = x + p / plane * d.in[0] * d.in[1] * d.channels;
    vec<T, W> g = load<T, W>(dy + p * d.channels);
    for (int k = 0; k < TAPS; k++) {
      int tap = first + k;
      int row = tap < taps ? source<false>(d, 0, a, tap / d.kernel[1]) : -1;
      int column = source<false>(d, 1, b, tap % d.kernel[1]);
      if (row < 0 || column < 0) continue;
      vec<T, W> v = load<T, W>(image + ((int64_t)row * d.in[1] + column) * d.channels);
      for (int i = 0; i < W; i++)
        sum[k][i] += v.v[i] * g.v[i];
    }
  }
}

/* blockIdx.x selects a chunk of pixels, blockIdx.z a group of TAPS taps. out
 * [chunks][channels][taps]. part: [W][threads], so that adjacent threads use different banks. */
template <class T, int W>
CT_KERNEL void correlate(gpu__depthwise_t d, int64_t pixels, int64_t chunk, const T *x, const T *dy,
                         float *out)
{
  CT_SHARED(float, part, THREADS *W);
  int taps = d.kernel[0] * d.kernel[1], first = (int)blockIdx.z * TAPS;
  int64_t c = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * W;
  int64_t begin = blockIdx.x * chunk, end = begin + chunk < pixels ? begin + chunk : pixels;
  float sum[TAPS][W] = {}, *mine = part + gpu_thread();
  if (c < d.channels) sum_taps<T, W>(d, first, x + c, dy + c, begin, end, sum);
  out += (blockIdx.x * d.channels + c) * taps;
  for (int k = 0; k < TAPS && first + k < taps; k++) {
    for (int i = 0; i < W; i++)
      mine[i * THREADS] = sum[k][i];
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half)
        for (int i = 0; i < W; i++)
          mine[i * THREADS] += mine[i * THREADS + half * blockDim.x];
    }
    if (threadIdx.y == 0 && c < d.channels)
      for (int i = 0; i < W; i++)
        out[i * taps + first + k] = mine[i * THREADS];
    __syncthreads();
  }
}

/* ---- launches ---- */

template <class T> static int by_packs(const gpu__depthwise_t *d, const void *a, const void *b)
{
  return d->channels % gpu_pack<T>::n == 0 && gpu_is_aligned(a) && gpu_is_aligned(b);
}

/* Returns the block size; both dimensions are powers of two. */
static dim3 block_of(const gpu__depthwise_t *d, int width)
{
  unsigned across = 1;
  while (across * width < CHANNELS && across * width < d->channels)
    across *= 2;
  return dim3(across, THREADS / across);
}

static unsigned blocks_of_channels(const gpu__depthwise_t *d, dim3 block, int width)
{
  int64_t each = (int64_t)block.x * width;
  return (unsigned)((d->channels + each - 1) / each);
}

template <class T, int W, bool BACK>
static cudaError_t launch_convolve(const gpu__depthwise_t *d, const operands<T> &o, cudaStream_t s)
{
  const int *size = BACK ? d->in : d->out;
  int64_t strips = d->n * size[0] * ((size[1] + STRIP - 1) / STRIP);
  dim3 block = block_of(d, W);
  dim3 grid(gpu_grid(strips, block.y), blocks_of_channels(d, block, W));
  if (strips == 0) return cudaSuccess;
  CT_LAUNCH((convolve<T, W, BACK>), grid, block, s, *d, strips, o);
  return cudaGetLastError();
}

template <class T, bool BACK>
static cudaError_t start_convolve(const gpu__depthwise_t *d, const operands<T> &o, cudaStream_t s)
{
  if (by_packs<T>(d, o.from, o.to) && gpu_is_aligned(o.bias))
    return launch_convolve<T, gpu_pack<T>::n, BACK>(d, o, s);
  return launch_convolve<T, 1, BACK>(d, o, s);
}

extern "C" cudaError_t gpu__depthwise_forward(ct_dtype_t type, const gpu__depthwise_t *d,
                                              const void *x, const void *w, const void *bias,
                                              int relu, void *y, cudaStream_t s)
{
  GPU_BY_TYPE(type, T, operands<T> o = {(const T *)x, (const T *)w, (const T *)bias, (T *)y, relu};
              return start_convolve<T, false>(d, o, s))
  return cudaSuccess;
}

extern "C" cudaError_t gpu__depthwise_backward_data(ct_dtype_t type, const gpu__depthwise_t *d,
                                                    const void *dy, const void *w, void *dx,
                                                    cudaStream_t s)
{
  GPU_BY_TYPE(type, T, operands<T> o = {(const T *)dy, (const T *)w, nullptr, (T *)dx, 0};
              return start_convolve<T, true>(d, o, s))
  return cudaSuccess;
}

static int64_t pixels_of(const gpu__depthwise_t *d)
{
  return d->n * d->out[0] * d->out[1];
}

static int64_t chunks_of(const gpu__depthwise_t *d)
{
  int64_t n = (pixels_of(d) + CHUNK_PIXELS - 1) / CHUNK_PIXELS;
  return n < 1 ? 1 : n < MAX_CHUNKS ? n : (int64_t)MAX_CHUNKS;
}

/* Returns the number of filter elements. */
static int64_t filters(const gpu__depthwise_t *d)
{
  return d->channels * d->kernel[0] * d->kernel[1];
}

extern "C" size_t gpu__depthwise_scratch(const gpu__depthwise_t *d)
{
  return (size_t)(chunks_of(d) * filters(d)) * sizeof(float) +
         gpu__column_sums_scratch(chunks_of(d), filters(d));
}

template <class T, int W>
static cudaError_t launch_correlate(const gpu__depthwise_t *d, const T *x, const T *dy, float *out,
                                    cudaStream_t s)
{
  int64_t chunks = chunks_of(d), pixels = pixels_of(d);
  dim3 block = block_of(d, W);
  dim3 grid((unsigned)chunks, blocks_of_channels(d, block, W),
            (unsigned)((d->kernel[0] * d->kernel[1] + TAPS - 1) / TAPS));
  CT_LAUNCH((correlate<T, W>), grid, block, s, *d, pixels, (pixels + chunks - 1) / chunks, x, dy,
            out);
  return cudaGetLastError();
}

template <class T>
static cudaError_t start_correlate(const gpu__depthwise_t *d, const T *x, const T *dy, float *out,
                                   cudaStream_t s)
{
  if (by_packs<T>(d, x, dy)) return launch_correlate<T, gpu_pack<T>::n>(d, x, dy, out, s);
  return launch_correlate<T, 1>(d, x, dy, out, s);
}

extern "C" cudaError_t gpu__depthwise_backward_weight(ct_dtype_t type, const gpu__depthwise_t *d,
                                                      const void *x, const void *dy, float *dw,
                                                      void *scratch, cudaStream_t s)
{
  float *part = (float *)scratch;
  int64_t chunks = chunks_of(d), n = filters(d);
  cudaError_t e = cudaSuccess;
  GPU_BY_TYPE(type, T, e = start_correlate(d, (const T *)x, (const T *)dy, part, s))
  if (e != cudaSuccess) return e;
  return gpu__column_sums(CT_F32, part, chunks, n, dw, part + chunks * n, s);
}
