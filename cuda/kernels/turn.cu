/* Transposes: see turn.h. One thread per element. */
#include "cuda/kernels/turn.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256 };

CT_KERNEL void turn(int64_t n, int64_t rows, int64_t columns, const float *from, float *to)
{
  GPU_LOOP (i, n) {
    int64_t r = i % rows, c = i / rows % columns, outer = i / rows / columns;
    to[i] = from[(outer * rows + r) * columns + c];
  }
}

extern "C" cudaError_t gpu__turn(const float *from, float *to, int64_t outer, int64_t rows,
                                 int64_t columns, cudaStream_t stream)
{
  int64_t n = outer * rows * columns;
  CT_LAUNCH(turn, gpu_grid(n, THREADS), THREADS, stream, n, rows, columns, from, to);
  return cudaGetLastError();
}
