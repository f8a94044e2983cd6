/** \file rows.h  Kernels in which one warp handles one row. Module-internal. */
#ifndef GPU_ROWS_H
#define GPU_ROWS_H
#include "cuda/kernels/kernel.h"

/** The warps of the grid share the rows r = 0 … rows - 1. */
#define GPU_WARP_ROWS(r, rows) \
  for (int64_t r = gpu_first() / GPU_WARP; r < (rows); r += gpu_stride() / GPU_WARP)
/** The lanes of a warp share the iterations i = 0 … wide - 1. */
#define GPU_LANES(i, wide) for (int64_t i = threadIdx.x % GPU_WARP; i < (wide); i += GPU_WARP)

#endif
