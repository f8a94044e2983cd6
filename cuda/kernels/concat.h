/** \file concat.h  Concatenates and splits rows. Module-internal; local, Hot. All arrays but the
 * parameters are of \a type. */
#ifndef GPU_PARTS_H
#define GPU_PARTS_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Concatenates x[rows][one] and x2[rows][two] to y[rows][one + two]. */
cudaError_t gpu__join(ct_dtype_t type, int64_t rows, int64_t one, int64_t two, const void *x,
                      const void *x2, void *y, cudaStream_t stream);
/** Copies to y[rows][count] the columns \a first to \a first + \a count - 1 of x[rows][all] + x2
 * (x2 NULL: of x). */
cudaError_t gpu__part(ct_dtype_t type, int64_t rows, int64_t all, int64_t first, int64_t count,
                      const void *x, const void *x2, void *y, cudaStream_t stream);
/** Copies x[rows][count] to y[rows][all], to the columns from \a first on; other columns become
 * 0. */
cudaError_t gpu__pad_columns(ct_dtype_t type, int64_t rows, int64_t all, int64_t first,
                             int64_t count, const void *x, void *y, cudaStream_t stream);
/** Computes y[batch][1 + patches][wide]: the class token followed by x[batch][patches][wide], plus
 * position[1 + patches][wide]. */
cudaError_t gpu__tokens(ct_dtype_t type, int64_t batch, int64_t patches, int64_t wide,
                        const void *x, const float *class_token, const float *position, void *y,
                        cudaStream_t stream);
/** Copies x[N][T][F], whose sizes are dim[0 … 2], to y[N][size][F]: element i of sample n to row
 * position[n] + i, if that row exists. position NULL: 0. */
cudaError_t gpu__append(ct_dtype_t type, const int64_t *dim, int64_t size, const int32_t *position,
                        const void *x, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
