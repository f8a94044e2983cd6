/* Rows of a table by their indices. For the gradient a block has some rows of the table: it scans
 * all indices in order and adds those that are among its rows, so the order of a sum does not
 * depend on timing. */
#include "cuda/kernels/table_rows.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256, GROUP = 32 /* rows of a block */ };

/* Returns the row of an index; -1: none. */
CT_D int64_t row_of(const gpu__rows_t &r, float index)
{
  if (!(index >= 0 && index < (float)r.rows && index == floorf(index))) return -1;
  return (int64_t)index;
}

template <class F, class T> CT_KERNEL void read_rows(gpu__rows_t r, const F *table, T *y)
{
  GPU_LOOP (i, r.n * r.width) {
    int64_t row = row_of(r, r.index[i / r.width]);
    gpu_store(&y[i], gpu_load(&table[(row < 0 ? 0 : row) * r.width + i % r.width]));
  }
}

CT_KERNEL void check_rows(gpu__rows_t r, gpu__bad_index_t *bad)
{
  float worst = -INFINITY;
  int count = 0;
  for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
    if (row_of(r, r.index[i]) >= 0) continue;
    worst = gpu_larger(worst, r.index[i]);
    count++;
  }
  count = gpu_block_sum(count > 0 ? 1 : 0);
  worst = gpu_block_max(worst);
  if (threadIdx.x == 0 && count > 0) {
    bad->rows = r.rows;
    bad->index = worst;
    bad->found = 1;
  }
}

/* The indices of one tile that are among the rows of a block, in their order. */
template <class T>
CT_D void add_tile(const gpu__rows_t &r, int64_t first, int64_t tile, const T *dy, float *table)
{
  CT_SHARED(int64_t, entry, THREADS);
  CT_SHARED(int, row, THREADS);
  CT_SHARED(int, counts, THREADS / GPU_WARP);
  int thread = (int)threadIdx.x, warp = thread / GPU_WARP, lane = thread % GPU_WARP;
  int64_t i = tile + thread, own = i < r.n ? row_of(r, r.index[i]) : -1;
  int hit = own >= first && own < first + GROUP && own != r.padding;
  unsigned votes = __ballot_sync(0xffffffffu, hit);
  int before = __popc(votes & ((1u << lane) - 1)), all = 0;
  if (lane == 0) counts[warp] = __popc(votes);
  __syncthreads();
  for (int w = 0; w < THREADS / GPU_WARP; w++) {
    if (w < warp) before += counts[w];
    all += counts[w];
  }
  if (hit) {
    entry[before] = i;
    row[before] = (int)(own - first);
  }
  __syncthreads();
  for (int k = 0; k < all; k++)
    for (int64_t c = thread; c < r.width; c += THREADS)
      table[(first + row[k]) * r.width + c] += gpu_load(&dy[entry[k] * r.width + c]);
  __syncthreads();
}

template <class T> CT_KERNEL void sum_rows(gpu__rows_t r, const T *dy, float *table)
{
  for (int64_t first = (int64_t)blockIdx.x * GROUP; first < r.rows;
       first += (int64_t)gridDim.x * GROUP) {
    for (int64_t k = 0; k < GROUP && first + k < r.rows && !r.adds; k++)
      for (int64_t c = threadIdx.x; c < r.width; c += THREADS)
        table[(first + k) * r.width + c] = 0;
    for (int64_t tile = 0; tile < r.n; tile += THREADS)
      add_tile<T>(r, first, tile, dy, table);
  }
}

extern "C" cudaError_t gpu__rows_read(const gpu__rows_t *r, ct_dtype_t from, const void *table,
                                      ct_dtype_t to, void *y, cudaStream_t stream)
{
  unsigned grid = gpu_grid(r->n * r->width, THREADS);
  if (r->n == 0) return cudaSuccess;
  if (from == CT_F32 && to != CT_F32) {
    GPU_BY_TYPE(
        to, T,
        CT_LAUNCH((read_rows<float, T>), grid, THREADS, stream, *r, (const float *)table, (T *)y));
  } else {
    GPU_BY_TYPE(to, T,
                CT_LAUNCH((read_rows<T, T>), grid, THREADS, stream, *r, (const T *)table, (T *)y));
  }
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__rows_check(const gpu__rows_t *r, gpu__bad_index_t *bad,
                                       cudaStream_t stream)
{
  CT_LAUNCH(check_rows, 1, THREADS, stream, *r, bad);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__rows_sum(const gpu__rows_t *r, ct_dtype_t type, const void *dy,
                                     float *table, cudaStream_t stream)
{
  GPU_BY_TYPE(
      type, T,
      CT_LAUNCH(sum_rows<T>, gpu_grid(r->rows, GROUP), THREADS, stream, *r, (const T *)dy, table));
  return cudaGetLastError();
}
