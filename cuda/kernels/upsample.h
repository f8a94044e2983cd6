/** \file upsample.h  Upsampling kernels. Module-internal; local, Hot. */
#ifndef GPU_UPSAMPLE_H
#define GPU_UPSAMPLE_H
#include <cuda_runtime_api.h>

#include "backend/ct_resize.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The shapes: x is [outer][in[0]][in[1]][in[2]][inner], y is
 * [outer][out[0]][out[1]][out[2]][inner]. */
typedef struct gpu__upsample {
  int64_t outer, inner, in[3], out[3];
  int linear; /**< with `whole`: 1 = linear, 0 = nearest */
  int whole; /**< 1: each out[i] is a multiple of in[i], and coordinates are those of pixel centres;
                   0: as `dim` says */
  ct_resize_dim_t dim[3];
} gpu__upsample_t;

/** Upsamples x to y. */
cudaError_t gpu__upsample(ct_dtype_t type, const gpu__upsample_t *u, const void *x, void *y,
                          cudaStream_t stream);
/** Computes dx from dy + dy2 (dy2 NULL: dy). */
cudaError_t gpu__upsample_backward(ct_dtype_t type, const gpu__upsample_t *u, const void *dy,
                                   const void *dy2, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
