/** \file softmax.h  Softmax of rows. Module-internal.
 *
 * Arithmetic is float32; one warp handles one row of any length. A NaN makes its whole row NaN. */
#ifndef GPU_SOFTMAX_H
#define GPU_SOFTMAX_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes p [rows, wide], of type \a type: the softmax of each row of x; with CT_F32 p may be
 * x. */
cudaError_t gpu__softmax(ct_dtype_t type, int64_t rows, int64_t wide, const float *x, void *p,
                         cudaStream_t stream);
/** Computes dx = p * (dp - sum of p * dp over the row), of type \a type; with CT_F32 dx may be
 * dp. */
cudaError_t gpu__softmax_backward(ct_dtype_t type, int64_t rows, int64_t wide, const void *p,
                                  const float *dp, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
