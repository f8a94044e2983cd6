/** \file rows.h  Kernels in which a warp has a row.  Module-internal. */
#ifndef GPU_ROWS_H
#define GPU_ROWS_H
#include "cuda/kernels/kernel.h"

/** The grid's warps do r = 0 … rows - 1 together. */
#define GPU_WARP_ROWS(r, rows) \
  for (int64_t r = gpu_first() / GPU_WARP; r < (rows); r += gpu_stride() / GPU_WARP)
/** The lanes of a warp do i = 0 … wide - 1 together. */
#define GPU_LANES(i, wide) for (int64_t i = threadIdx.x % GPU_WARP; i < (wide); i += GPU_WARP)

#endif
