/** \file reduce.h  Reductions over any dims, and the cumulative sum. Module-internal; local, Hot.
 *
 * Dims are those in memory, without dims of 1 and with adjacent dims merged if all are kept or all
 * reduced. An element of y is made of a line of x. If the last dim is reduced, a warp handles a
 * line, else a thread. Sums are double and have a fixed order. */
#ifndef GPU_REDUCE_H
#define GPU_REDUCE_H
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Dims, the last first, with their steps in x. */
typedef struct gpu__dims {
  int n;
  int64_t size[CT_MAX_DIMS], step[CT_MAX_DIMS];
} gpu__dims_t;

typedef struct gpu__reduce_shape {
  gpu__dims_t kept, reduced;
  int64_t lines, count; /* lines, and elements of a line */
  int mode;             /* ct_reduction_t */
  int rows;             /* 1: a warp handles a line */
  int uses_x, uses_y;   /* what backward reads */
  double p, correction;
} gpu__reduce_t;

cudaError_t gpu__reduce(ct_dtype_t type, const gpu__reduce_t *d, const void *x, void *y,
                        cudaStream_t stream);
/** Computes dx; x and y may be NULL if the mode does not use them. */
cudaError_t gpu__reduce_back(ct_dtype_t type, const gpu__reduce_t *d, const void *x, const void *y,
                             const void *dy, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
