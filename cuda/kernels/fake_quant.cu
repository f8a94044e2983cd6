/* Fake quantization. The range follows a batch in two launches: each block finds the extremes of
 * its elements, and one block those of all. Extremes do not depend on an order, so ranges have the
 * same bits in every run. */
#include "cuda/kernels/fake_quant.h"

#include "backend/ct_fake_quant.h"
#include "cuda/kernels/kernel.h"

enum { BLOCK = 256 };

/* Stores the extremes over a block's threads; NaN does not count, as on the host. */
CT_D void store_extremes(float low, float high, float *lows, float *highs)
{
  float most = gpu_block_max(high), least = -gpu_block_max(-low);
  if (gpu_thread() > 0) return;
  *lows = least;
  *highs = most;
}

CT_KERNEL void block_extremes(int64_t n, const float *x, float *lows, float *highs)
{
  float low = 0, high = 0;
  GPU_LOOP (i, n) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  store_extremes(low, high, &lows[blockIdx.x], &highs[blockIdx.x]);
}

CT_KERNEL void follow(int blocks, const float *lows, const float *highs, float *range)
{
  float low = 0, high = 0;
  CT_SHARED(float, least, 1);
  CT_SHARED(float, most, 1);
  for (int i = gpu_thread(); i < blocks; i += gpu_threads()) {
    low = lows[i] < low ? lows[i] : low;
    high = highs[i] > high ? highs[i] : high;
  }
  store_extremes(low, high, least, most);
  if (gpu_thread() == 0) ct_fake_quant_follow(range, *least, *most);
}

CT_KERNEL void round_all(int64_t n, const float *x, const float *dy, const float *range, float *y)
{
  CT_SHARED(ct_quant_params_t, shared, 1);
  int known = range[0] < range[1];
  if (gpu_thread() == 0) *shared = ct_quant_params_of(range[0], range[1]);
  __syncthreads();
  const ct_quant_params_t qp = *shared;
  GPU_LOOP (i, n) {
    if (!known)
      y[i] = dy ? dy[i] : x[i];
    else
      y[i] = dy ? ct_fake_quant_gradient(&qp, x[i], dy[i]) : ct_fake_quant(&qp, x[i]);
  }
}

extern "C" size_t gpu__fake_quant_scratch(int64_t n)
{
  return 2 * gpu_grid(n, BLOCK) * sizeof(float);
}

extern "C" cudaError_t gpu__fake_quant_follow(int64_t n, const float *x, float *range,
                                              void *scratch, cudaStream_t stream)
{
  unsigned blocks = gpu_grid(n, BLOCK);
  float *lows = (float *)scratch, *highs = lows + blocks;
  if (n == 0) return cudaSuccess;
  CT_LAUNCH(block_extremes, blocks, BLOCK, stream, n, x, lows, highs);
  CT_LAUNCH(follow, 1, BLOCK, stream, (int)blocks, lows, highs, range);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__fake_quant(int64_t n, const float *x, const float *dy,
                                       const float *range, float *y, cudaStream_t stream)
{
  if (n == 0) return cudaSuccess;
  CT_LAUNCH(round_all, gpu_grid(n, BLOCK), BLOCK, stream, n, x, dy, range, y);
  return cudaGetLastError();
}
