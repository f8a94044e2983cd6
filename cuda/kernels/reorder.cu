/* Transposes [batch][rows][columns] to [batch][columns][rows], with an optional cast. */
#include "cuda/kernels/reorder.h"

#include "cuda/kernels/kernel.h"

enum { TILE = 32, HIGH = 8 };

/* Transposes in tiles that pass through shared memory, so that source and result are accessed along
 * their lines; one padding element per line keeps the columns in different banks. Blocks loop over
 * tiles. */
template <class From, class To>
CT_KERNEL void turn(int64_t tiles, int64_t rows, int64_t columns, const From *x, To *y)
{
  CT_SHARED(float, tile, TILE *(TILE + 1));
  int64_t across = (columns + TILE - 1) / TILE, down = (rows + TILE - 1) / TILE;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    int64_t image = t / (across * down), r0 = t / across % down * TILE, c0 = t % across * TILE;
    const From *from = x + image * rows * columns;
    To *to = y + image * rows * columns;
    for (int k = threadIdx.y; k < TILE; k += HIGH)
      if (r0 + k < rows && c0 + threadIdx.x < columns)
        tile[k * (TILE + 1) + threadIdx.x] = gpu_load(&from[(r0 + k) * columns + c0 + threadIdx.x]);
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += HIGH)
      if (c0 + k < columns && r0 + threadIdx.x < rows)
        gpu_store(&to[(c0 + k) * rows + r0 + threadIdx.x], tile[threadIdx.x * (TILE + 1) + k]);
    __syncthreads();
  }
}

/* Transposes without tiles, which would be nearly empty for few channels, as in images. I: index
 * type; 32-bit divisions are much cheaper. */
template <class From, class To, class I>
CT_KERNEL void turn_narrow(int64_t n, I rows, I columns, const From *x, To *y)
{
  GPU_LOOP (i, n) {
    I line = (I)i / rows, r = (I)i - line * rows, image = line / columns;
    I c = line - image * columns;
    gpu_store(&y[i], gpu_load(&x[(image * rows + r) * columns + c]));
  }
}

template <class From, class To>
static cudaError_t launch(int64_t batch, int64_t rows, int64_t columns, const From *x, To *y,
                          cudaStream_t stream)
{
  int64_t n = batch * rows * columns;
  int64_t tiles = batch * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
  if (n == 0) return cudaSuccess;
  if ((rows < TILE / 2 || columns < TILE / 2) && n <= INT32_MAX)
    CT_LAUNCH((turn_narrow<From, To, uint32_t>), gpu_grid(n, 256), 256, stream, n, (uint32_t)rows,
              (uint32_t)columns, x, y);
  else if (rows < TILE / 2 || columns < TILE / 2)
    CT_LAUNCH((turn_narrow<From, To, int64_t>), gpu_grid(n, 256), 256, stream, n, rows, columns, x,
              y);
  else
    CT_LAUNCH((turn<From, To>), gpu_grid(tiles, 1), dim3(TILE, HIGH), stream, tiles, rows, columns,
              x, y);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__turn(ct_dtype_t from, ct_dtype_t to, int64_t batch, int64_t rows,
                                 int64_t columns, const void *x, void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(
      from, From,
      GPU_BY_TYPE(to, To, return launch(batch, rows, columns, (const From *)x, (To *)y, stream)))
  return cudaSuccess;
}
