/* Layer normalization: see lnorm.h. */
#include "cuda/kernels/lnorm.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/vec_access.h"

enum {
  BLOCK = 256,     /* threads; one row per warp */
  LINES = 8,       /* lines of a summing block; lines process different rows */
  MAX_GROUPS = 128 /* maximum number of groups of rows with separate sums */
};

/* W: elements per access. wide is a multiple of W. */
template <class T, int W>
CT_KERNEL void lnorm(int64_t rows, int64_t wide, float eps, const T *x, const float *w,
                     const float *b, T *y, float *stats)
{
  GPU_WARP_ROWS (r, rows) {
    const T *row = x + r * wide;
    float sum = 0, squares = 0, v[W], weight[W], bias[W];
    for (int k = 0; k < W; k++)
      bias[k] = 0;
    GPU_LANES (i, b ? wide / W : 0) {
      gpu_load_floats<T, W>(v, row + i * W);
      for (int k = 0; k < W; k++)
        sum += v[k];
    }
    float mean = gpu_warp_sum(sum) / (float)wide;
    GPU_LANES (i, wide / W) {
      gpu_load_floats<T, W>(v, row + i * W);
      for (int k = 0; k < W; k++)
        squares += (v[k] - mean) * (v[k] - mean);
    }
    float invstd = 1 / sqrtf(gpu_warp_sum(squares) / (float)wide + eps);
    GPU_LANES (i, wide / W) {
      gpu_load_floats<T, W>(v, row + i * W);
      gpu_load_floats<float, W>(weight, w + i * W);
      if (b) gpu_load_floats<float, W>(bias, b + i * W);
      for (int k = 0; k < W; k++)
        v[k] = (v[k] - mean) * invstd * weight[k] + bias[k];
      gpu_store_floats<T, W>(y + r * wide + i * W, v);
    }
    if (stats && threadIdx.x % GPU_WARP == 0) {
      stats[2 * r] = mean;
      stats[2 * r + 1] = invstd;
    }
  }
}

template <class T, int W>
CT_KERNEL void lnorm_data(int64_t rows, int64_t wide, const T *x, const float *w,
                          const float *stats, const T *dy, const T *add, int rms, T *dx)
{
  GPU_WARP_ROWS (r, rows) {
    float mean = stats[2 * r], invstd = stats[2 * r + 1], sum = 0, slope = 0;
    float v[W], g[W], weight[W];
    GPU_LANES (i, wide / W) {
      gpu_load_floats<T, W>(v, x + r * wide + i * W);
      gpu_load_floats<T, W>(g, dy + r * wide + i * W);
      gpu_load_floats<float, W>(weight, w + i * W);
      for (int k = 0; k < W; k++) {
        sum += g[k] * weight[k];
        slope += g[k] * weight[k] * (v[k] - mean);
      }
    }
    float g_mean = rms ? 0 : gpu_warp_sum(sum) / (float)wide;
    float g_slope = gpu_warp_sum(slope) / (float)wide * invstd * invstd;
    GPU_LANES (i, wide / W) {
      gpu_load_floats<T, W>(v, x + r * wide + i * W);
      gpu_load_floats<T, W>(g, dy + r * wide + i * W);
      gpu_load_floats<float, W>(weight, w + i * W);
      for (int k = 0; k < W; k++)
        g[k] = invstd * (g[k] * weight[k] - g_mean - (v[k] - mean) * g_slope);
      if (add) {
        gpu_load_floats<T, W>(v, add + r * wide + i * W);
        for (int k = 0; k < W; k++)
          g[k] += v[k];
      }
      gpu_store_floats<T, W>(dx + r * wide + i * W, g);
    }
  }
}

/* Adds the sums of all lines of a block; line 0 gets the result. part: [W][LINES][GPU_WARP]. */
template <int W> CT_D void add_lines(float *part, float sum[W])
{
  int own = gpu_thread();
  __syncthreads(); /* the previous sums have been read */
  for (int k = 0; k < W; k++)
    part[k * LINES * GPU_WARP + own] = sum[k];
  __syncthreads();
  for (int l = 1; l < LINES && threadIdx.y == 0; l++)
    for (int k = 0; k < W; k++)
      sum[k] += part[(k * LINES + l) * GPU_WARP + own];
}

/* part [groups, 2, wide]: sums over the rows of each group, which are LINES * groups apart. */
template <class T, int W>
CT_KERNEL void group_sums(int64_t rows, int64_t wide, const T *x, const float *stats, const T *dy,
                          float *part)
{
  CT_SHARED(float, lines, W *LINES *GPU_WARP);
  int64_t apart = (int64_t)gridDim.y * LINES, across = (int64_t)gridDim.x * GPU_WARP * W;

  for (int64_t first = (int64_t)blockIdx.x * GPU_WARP * W; first < wide; first += across) {
    int64_t i = first + threadIdx.x * W, at = 2 * blockIdx.y * wide + i;
    float dw[W] = {}, db[W] = {}, v[W], g[W];
    for (int64_t r = blockIdx.y * LINES + threadIdx.y; i < wide && r < rows; r += apart) {
      float mean = stats[2 * r], invstd = stats[2 * r + 1];
      gpu_load_floats<T, W>(v, x + r * wide + i);
      gpu_load_floats<T, W>(g, dy + r * wide + i);
      for (int k = 0; k < W; k++) {
        dw[k] += g[k] * (v[k] - mean) * invstd;
        db[k] += g[k];
      }
    }
    add_lines<W>(lines, dw);
    add_lines<W>(lines, db);
    if (threadIdx.y > 0 || i >= wide) continue;
    gpu_store_floats<float, W>(part + at, dw);
    gpu_store_floats<float, W>(part + at + wide, db);
  }
}

CT_KERNEL void sum_groups(int groups, int64_t wide, const float *part, float *dw, float *db)
{
  CT_SHARED(float, lines, 2 * LINES * GPU_WARP);
  int64_t across = (int64_t)gridDim.x * GPU_WARP;

  for (int64_t first = (int64_t)blockIdx.x * GPU_WARP; first < wide; first += across) {
    int64_t i = first + threadIdx.x;
    float sum[2] = {};
    for (int g = (int)threadIdx.y; i < wide && g < groups; g += LINES)
      for (int k = 0; k < 2; k++)
        sum[k] += part[(2 * g + k) * wide + i];
    add_lines<2>(lines, sum);
    if (threadIdx.y > 0 || i >= wide) continue;
    dw[i] = sum[0];
    if (db) db[i] = sum[1];
  }
}

/* Returns 1 if packs (16 bytes of T) can be used for all arrays. */
template <class T> static int by_packs(int64_t wide, const void *p, const void *q, const void *r)
{
  return wide % gpu_pack<T>::n == 0 && gpu_is_aligned(p) && gpu_is_aligned(q) && gpu_is_aligned(r);
}

template <class T>
static cudaError_t launch_forward(int64_t rows, int64_t wide, float eps, const T *x, const float *w,
                                  const float *b, T *y, float *stats, cudaStream_t stream)
{
  unsigned grid = gpu_grid(rows, BLOCK / GPU_WARP);
  if (by_packs<T>(wide, x, y, w) && gpu_is_aligned(b))
    CT_LAUNCH((lnorm<T, gpu_pack<T>::n>), grid, BLOCK, stream, rows, wide, eps, x, w, b, y, stats);
  else
    CT_LAUNCH((lnorm<T, 1>), grid, BLOCK, stream, rows, wide, eps, x, w, b, y, stats);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__lnorm(ct_dtype_t type, int64_t rows, int64_t wide, float eps,
                                  const void *x, const float *w, const float *b, void *y,
                                  float *stats, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T,
              return launch_forward(rows, wide, eps, (const T *)x, w, b, (T *)y, stats, stream))
  return cudaSuccess;
}

template <class T>
static cudaError_t launch_data(int64_t rows, int64_t wide, const T *x, const float *w,
                               const float *stats, const T *dy, const T *add, int rms, T *dx,
                               cudaStream_t stream)
{
  unsigned grid = gpu_grid(rows, BLOCK / GPU_WARP);
  if (by_packs<T>(wide, x, dy, dx) && gpu_is_aligned(w) && gpu_is_aligned(add))
    CT_LAUNCH((lnorm_data<T, gpu_pack<T>::n>), grid, BLOCK, stream, rows, wide, x, w, stats, dy,
              add, rms, dx);
  else
    CT_LAUNCH((lnorm_data<T, 1>), grid, BLOCK, stream, rows, wide, x, w, stats, dy, add, rms, dx);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__lnorm_data(ct_dtype_t type, int64_t rows, int64_t wide, const void *x,
                                       const float *w, const float *stats, const void *dy,
                                       const void *add, int rms, void *dx, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T,
              return launch_data(rows, wide, (const T *)x, w, stats, (const T *)dy, (const T *)add,
                                 rms, (T *)dx, stream))
  return cudaSuccess;
}

static int groups_of(int64_t rows)
{
  int groups = MAX_GROUPS;
  if (rows < (int64_t)groups * 4 * LINES) groups = (int)(rows / (4 * LINES));
  return groups < 1 ? 1 : groups;
}

extern "C" size_t gpu__lnorm_scratch(int64_t rows, int64_t wide)
{
  return (size_t)(2 * groups_of(rows) * wide) * sizeof(float);
}

template <class T>
static cudaError_t launch_param(int64_t rows, int64_t wide, const T *x, const float *stats,
                                const T *dy, float *part, cudaStream_t stream)
{
  constexpr int width = gpu_pack<T>::n;
  int packs = by_packs<T>(wide, x, dy, part);
  dim3 block(GPU_WARP, LINES);
  dim3 grid(gpu_grid(wide, GPU_WARP * (packs ? width : 1)), (unsigned)groups_of(rows));
  if (packs)
    CT_LAUNCH((group_sums<T, width>), grid, block, stream, rows, wide, x, stats, dy, part);
  else
    CT_LAUNCH((group_sums<T, 1>), grid, block, stream, rows, wide, x, stats, dy, part);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__lnorm_param(ct_dtype_t type, int64_t rows, int64_t wide, const void *x,
                                        const float *stats, const void *dy, float *dw, float *db,
                                        void *scratch, cudaStream_t stream)
{
  float *part = (float *)scratch;
  cudaError_t e = cudaSuccess;
  GPU_BY_TYPE(type, T,
              e = launch_param(rows, wide, (const T *)x, stats, (const T *)dy, part, stream))
  if (e != cudaSuccess) return e;
  CT_LAUNCH(sum_groups, gpu_grid(wide, GPU_WARP), dim3(GPU_WARP, LINES), stream, groups_of(rows),
            wide, part, dw, db);
  return cudaGetLastError();
}
