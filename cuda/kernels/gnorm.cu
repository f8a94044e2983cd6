/* Group normalization: see gnorm.h. */
#include "cuda/kernels/gnorm.h"

#include "cuda/kernels/rows.h"

enum {
  BLOCK = 256, /* threads */
  LINES = 8    /* lines of a summing block, each with 32 channels; lines process different pixels */
};

CT_D int64_t offset_of(const gpu__gnorm_t &g, int64_t n, int64_t c, int64_t pixel)
{
  return n * g.channels * g.space + c * g.channel_step + pixel * g.pixel_step;
}

/* Return the index of the channel of element i among the channels of all samples, and the index of
 * its group. */
CT_D int64_t channel_of(const gpu__gnorm_t &g, int64_t i)
{
  int64_t n = i / (g.channels * g.space);
  return n * g.channels + i / g.channel_step % g.channels;
}
CT_D int64_t group_of(const gpu__gnorm_t &g, int64_t channel)
{
  return channel / (g.channels / g.groups);
}

/* Sums over all lines of a block; line 0 gets the result. */
CT_D void add_lines(float *shared, float &sum)
{
  int own = (int)(threadIdx.y * GPU_WARP + threadIdx.x);
  shared[own] = sum;
  __syncthreads();
  for (int k = 1; k < LINES && threadIdx.y == 0; k++)
    sum += shared[own + k * GPU_WARP];
  __syncthreads();
}

/* part: mean of each channel and sum of squared deviations; computed about the channel's first
 * value, which avoids cancellation. */
template <class T> CT_KERNEL void channel_moments(gpu__gnorm_t g, const T *x, float *part)
{
  CT_SHARED(float, shared, LINES *GPU_WARP);
  for (int64_t n = blockIdx.y; n < g.samples; n += gridDim.y) {
    for (int64_t first = blockIdx.x * GPU_WARP; first < g.channels; first += gridDim.x * GPU_WARP) {
      int64_t c = first + threadIdx.x;
      float sum = 0, squares = 0, shift = 0;
      if (c < g.channels) shift = gpu_load(&x[offset_of(g, n, c, 0)]);
      for (int64_t p = threadIdx.y; c < g.channels && p < g.space; p += LINES) {
        float v = gpu_load(&x[offset_of(g, n, c, p)]) - shift;
        sum += v;
        squares += v * v;
      }
      add_lines(shared, sum);
      add_lines(shared, squares);
      if (threadIdx.y > 0 || c >= g.channels) continue;
      float *out = part + 2 * (n * g.channels + c), off = sum / (float)g.space;
      out[0] = shift + off;
      out[1] = squares - off * sum;
    }
  }
}

CT_KERNEL void group_stats(gpu__gnorm_t g, float eps, const float *part, float *stats)
{
  int64_t apart = g.channels / g.groups;
  GPU_WARP_ROWS (r, g.samples * g.groups) {
    const float *own = part + 2 * r * apart;
    float sum = 0, squares = 0;
    GPU_LANES (c, apart)
      sum += own[2 * c] - own[0];
    float mean = own[0] + gpu_warp_sum(sum) / (float)apart;
    GPU_LANES (c, apart)
      squares += own[2 * c + 1] + (float)g.space * (own[2 * c] - mean) * (own[2 * c] - mean);
    squares = gpu_warp_sum(squares) / (float)(apart * g.space);
    if (threadIdx.x % GPU_WARP == 0) {
      stats[2 * r] = mean;
      stats[2 * r + 1] = 1 / sqrtf(squares + eps);
    }
  }
}

template <class T>
CT_KERNEL void normalise(gpu__gnorm_t g, int64_t count, const T *x, const float *stats,
                         const float *w, const float *b, T *y)
{
  GPU_LOOP (i, count) {
    int64_t channel = channel_of(g, i), c = channel % g.channels;
    const float *s = stats + 2 * group_of(g, channel);
    float v = (gpu_load(&x[i]) - s[0]) * s[1];
    gpu_store(&y[i], w ? v * w[c] + b[c] : v);
  }
}

template <class T> CT_D float gradient(const T *dy, const T *dy2, int64_t i)
{
  return gpu_load(&dy[i]) + (dy2 ? gpu_load(&dy2[i]) : 0);
}

/* part: per channel the sums of dy and of dy * (x - mean). */
template <class T>
CT_KERNEL void channel_sums(gpu__gnorm_t g, const T *x, const T *dy, const T *dy2,
                            const float *stats, float *part)
{
  CT_SHARED(float, shared, LINES *GPU_WARP);
  for (int64_t n = blockIdx.y; n < g.samples; n += gridDim.y) {
    for (int64_t first = blockIdx.x * GPU_WARP; first < g.channels; first += gridDim.x * GPU_WARP) {
      int64_t c = first + threadIdx.x, channel = n * g.channels + c;
      float sum = 0, dot = 0, mean = 0;
      if (c < g.channels) mean = stats[2 * group_of(g, channel)];
      for (int64_t p = threadIdx.y; c < g.channels && p < g.space; p += LINES) {
        int64_t i = offset_of(g, n, c, p);
        float d = gradient(dy, dy2, i);
        sum += d;
        dot += d * (gpu_load(&x[i]) - mean);
      }
      add_lines(shared, sum);
      add_lines(shared, dot);
      if (threadIdx.y > 0 || c >= g.channels) continue;
      part[2 * channel] = sum;
      part[2 * channel + 1] = dot;
    }
  }
}

CT_KERNEL void param_sums(gpu__gnorm_t g, const float *stats, const float *part, float *dw,
                          float *db)
{
  GPU_LOOP (c, g.channels) {
    float weight = 0, bias = 0;
    for (int64_t n = 0; n < g.samples; n++) {
      int64_t channel = n * g.channels + c;
      weight += part[2 * channel + 1] * stats[2 * group_of(g, channel) + 1];
      bias += part[2 * channel];
    }
    dw[c] = weight;
    db[c] = bias;
  }
}

/* Computes the terms that dx subtracts: the mean of w * dy / std, and its slope over x - mean. */
CT_KERNEL void group_slopes(gpu__gnorm_t g, const float *w, const float *stats, const float *part,
                            float *slopes)
{
  int64_t apart = g.channels / g.groups;
  GPU_WARP_ROWS (r, g.samples * g.groups) {
    const float *own = part + 2 * r * apart;
    float sum = 0, dot = 0, share = stats[2 * r + 1] / (float)(apart * g.space);
    GPU_LANES (c, apart) {
      float weight = w ? w[r % g.groups * apart + c] : 1;
      sum += weight * own[2 * c];
      dot += weight * own[2 * c + 1];
    }
    sum = gpu_warp_sum(sum);
    dot = gpu_warp_sum(dot);
    if (threadIdx.x % GPU_WARP == 0) {
      slopes[2 * r] = sum * share;
      slopes[2 * r + 1] = dot * share * stats[2 * r + 1] * stats[2 * r + 1];
    }
  }
}

template <class T>
CT_KERNEL void data_gradient(gpu__gnorm_t g, int64_t count, const T *x, const float *w,
                             const float *stats, const float *slopes, const T *dy, const T *dy2,
                             T *dx)
{
  GPU_LOOP (i, count) {
    int64_t channel = channel_of(g, i), at = 2 * group_of(g, channel);
    float scale = stats[at + 1] * (w ? w[channel % g.channels] : 1);
    float v = scale * gradient(dy, dy2, i) - slopes[at];
    gpu_store(&dx[i], v - (gpu_load(&x[i]) - stats[at]) * slopes[at + 1]);
  }
}

/* ---- launches ---- */

static int64_t elements(const gpu__gnorm_t *g)
{
  return g->samples * g->channels * g->space;
}

static dim3 sums_grid(const gpu__gnorm_t *g)
{
  return dim3(gpu_grid(g->channels, GPU_WARP), gpu_grid(g->samples, 1));
}

static unsigned groups_grid(const gpu__gnorm_t *g)
{
  return gpu_grid(g->samples * g->groups, BLOCK / GPU_WARP);
}

extern "C" cudaError_t gpu__gnorm(ct_dtype_t type, const gpu__gnorm_t *g, float eps, const void *x,
                                  const float *w, const float *b, void *y, float *sums,
                                  float *stats, cudaStream_t stream)
{
  int64_t n = elements(g);
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(channel_moments<T>, sums_grid(g), dim3(GPU_WARP, LINES), stream, *g,
                        (const T *)x, sums));
  CT_LAUNCH(group_stats, groups_grid(g), BLOCK, stream, *g, eps, sums, stats);
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(normalise<T>, gpu_grid(n, BLOCK), BLOCK, stream, *g, n, (const T *)x, stats,
                        w, b, (T *)y));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__gnorm_sums(ct_dtype_t type, const gpu__gnorm_t *g, const void *x,
                                       const void *dy, const void *dy2, const float *stats,
                                       float *sums, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(channel_sums<T>, sums_grid(g), dim3(GPU_WARP, LINES), stream, *g,
                        (const T *)x, (const T *)dy, (const T *)dy2, stats, sums));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__gnorm_param(const gpu__gnorm_t *g, const float *stats,
                                        const float *sums, float *dw, float *db,
                                        cudaStream_t stream)
{
  CT_LAUNCH(param_sums, gpu_grid(g->channels, BLOCK), BLOCK, stream, *g, stats, sums, dw, db);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__gnorm_data(ct_dtype_t type, const gpu__gnorm_t *g, const void *x,
                                       const float *w, const float *stats, const float *sums,
                                       const void *dy, const void *dy2, void *dx, float *slopes,
                                       cudaStream_t stream)
{
  int64_t n = elements(g);
  CT_LAUNCH(group_slopes, groups_grid(g), BLOCK, stream, *g, w, stats, sums, slopes);
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(data_gradient<T>, gpu_grid(n, BLOCK), BLOCK, stream, *g, n, (const T *)x, w,
                        stats, slopes, (const T *)dy, (const T *)dy2, (T *)dx));
  return cudaGetLastError();
}
