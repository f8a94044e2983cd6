/* Layer normalization: see lnorm.h. */
#include "cuda/kernels/lnorm.h"
#include "cuda/kernels/rows.h"

enum {
  BLOCK = 256,    /* threads; one row per warp */
  LINES = 8,      /* lines of a summing block, each with 32 columns; lines process different rows */
  MAX_GROUPS = 64 /* maximum number of groups of rows with separate sums */
};

CT_KERNEL void lnorm(int64_t rows, int64_t wide, float eps, const float *x, const float *w,
                     const float *b, float *y, float *stats)
{
  GPU_WARP_ROWS (r, rows) {
    const float *row = x + r * wide;
    float sum = 0, squares = 0;
    GPU_LANES (i, wide)
      sum += row[i];
    float mean = gpu_warp_sum(sum) / (float)wide;
    GPU_LANES (i, wide)
      squares += (row[i] - mean) * (row[i] - mean);
    float invstd = 1 / sqrtf(gpu_warp_sum(squares) / (float)wide + eps);
    GPU_LANES (i, wide)
      y[r * wide + i] = (row[i] - mean) * invstd * w[i] + b[i];
    if (stats && threadIdx.x % GPU_WARP == 0) {
      stats[2 * r] = mean;
      stats[2 * r + 1] = invstd;
    }
  }
}

CT_KERNEL void lnorm_data(int64_t rows, int64_t wide, const float *x, const float *w,
                          const float *stats, const float *dy, float *dx)
{
  GPU_WARP_ROWS (r, rows) {
    int64_t first = r * wide;
    float mean = stats[2 * r], invstd = stats[2 * r + 1], sum = 0, slope = 0;
    GPU_LANES (i, wide) {
      float g = dy[first + i] * w[i];
      sum += g;
      slope += g * (x[first + i] - mean);
    }
    float g_mean = gpu_warp_sum(sum) / (float)wide;
    float g_slope = gpu_warp_sum(slope) / (float)wide * invstd * invstd;
    GPU_LANES (i, wide) {
      float g = dy[first + i] * w[i];
      dx[first + i] = invstd * (g - g_mean - (x[first + i] - mean) * g_slope);
    }
  }
}

/* part [groups, 2, wide]: sums over the rows of each group, which are LINES * groups apart. */
CT_KERNEL void group_sums(int64_t rows, int64_t wide, const float *x, const float *stats,
                          const float *dy, float *part)
{
  CT_SHARED(float, weight, LINES *GPU_WARP);
  CT_SHARED(float, bias, LINES *GPU_WARP);
  int column = (int)threadIdx.x, line = (int)threadIdx.y, own = line * GPU_WARP + column;
  int64_t apart = (int64_t)gridDim.y * LINES;

  for (int64_t first = blockIdx.x * GPU_WARP; first < wide; first += gridDim.x * GPU_WARP) {
    int64_t i = first + column;
    float dw = 0, db = 0;
    for (int64_t r = blockIdx.y * LINES + line; i < wide && r < rows; r += apart) {
      float g = dy[r * wide + i];
      dw += g * (x[r * wide + i] - stats[2 * r]) * stats[2 * r + 1];
      db += g;
    }
    weight[own] = dw;
    bias[own] = db;
    __syncthreads();
    for (int k = 1; k < LINES && line == 0; k++) {
      dw += weight[own + k * GPU_WARP];
      db += bias[own + k * GPU_WARP];
    }
    if (line == 0 && i < wide) {
      part[2 * blockIdx.y * wide + i] = dw;
      part[(2 * blockIdx.y + 1) * wide + i] = db;
    }
    __syncthreads();
  }
}

CT_KERNEL void sum_groups(int groups, int64_t wide, const float *part, float *dw, float *db)
{
  GPU_LOOP (i, wide) {
    float weight = 0, bias = 0;
    for (int g = 0; g < groups; g++) {
      weight += part[2 * g * wide + i];
      bias += part[(2 * g + 1) * wide + i];
    }
    dw[i] = weight;
    db[i] = bias;
  }
}

extern "C" cudaError_t gpu__lnorm(int64_t rows, int64_t wide, float eps, const float *x,
                                  const float *w, const float *b, float *y, float *stats,
                                  cudaStream_t stream)
{
  CT_LAUNCH(lnorm, gpu_grid(rows, BLOCK / GPU_WARP), BLOCK, stream, rows, wide, eps, x, w, b, y,
            stats);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__lnorm_data(int64_t rows, int64_t wide, const float *x, const float *w,
                                       const float *stats, const float *dy, float *dx,
                                       cudaStream_t stream)
{
  CT_LAUNCH(lnorm_data, gpu_grid(rows, BLOCK / GPU_WARP), BLOCK, stream, rows, wide, x, w, stats,
            dy, dx);
  return cudaGetLastError();
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

extern "C" cudaError_t gpu__lnorm_param(int64_t rows, int64_t wide, const float *x,
                                        const float *stats, const float *dy, float *dw, float *db,
                                        void *scratch, cudaStream_t stream)
{
  int groups = groups_of(rows);
  dim3 grid(gpu_grid(wide, GPU_WARP), (unsigned)groups), block(GPU_WARP, LINES);
  float *part = (float *)scratch;
  CT_LAUNCH(group_sums, grid, block, stream, rows, wide, x, stats, dy, part);
  CT_LAUNCH(sum_groups, gpu_grid(wide, BLOCK), BLOCK, stream, groups, wide, part, dw, db);
  return cudaGetLastError();
}
