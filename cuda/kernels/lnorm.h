/** \file lnorm.h  Layer normalization of rows [rows, wide]. Module-internal.
 *
 * x, y and their gradients have the type \a type; statistics, parameters and arithmetic are
 * float32. One warp handles one row. stats: mean and 1 / std of each row, [rows, 2]. */
#ifndef GPU_LNORM_H
#define GPU_LNORM_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y = (x - mean) / std * w + b. stats NULL: not stored. b NULL: y = x / rms(x) * w. y may
 * be x. */
cudaError_t gpu__lnorm(ct_dtype_t type, int64_t rows, int64_t wide, float eps, const void *x,
                       const float *w, const float *b, void *y, float *stats, cudaStream_t stream);
/** Computes dx, which may be dy, and adds \a add, unless it is NULL. \a rms: forward had no b. */
cudaError_t gpu__lnorm_data(ct_dtype_t type, int64_t rows, int64_t wide, const void *x,
                            const float *w, const float *stats, const void *dy, const void *add,
                            int rms, void *dx, cudaStream_t stream);
/** Pure. Returns the workspace bytes of gpu__lnorm_param(). */
size_t gpu__lnorm_scratch(int64_t rows, int64_t wide);
/** Computes the gradients dw and db (NULL: not wanted), summed in a fixed order. */
cudaError_t gpu__lnorm_param(ct_dtype_t type, int64_t rows, int64_t wide, const void *x,
                             const float *stats, const void *dy, float *dw, float *db,
                             void *scratch, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
