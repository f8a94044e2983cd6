/** \file elt.h  Elementwise kernels. Module-internal; local, Hot. Arrays have n elements of \a
 * type; the output may be one of the inputs. */
#ifndef GPU_ELT_H
#define GPU_ELT_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y = a + b (b NULL: a), then ReLU if \a relu. */
cudaError_t gpu__sum(ct_dtype_t type, int64_t n, const void *a, const void *b, int relu, void *y,
                     cudaStream_t stream);
/** Computes dx = dy + dy2 (dy2 NULL: dy), but 0 where the ReLU's output y is not positive (y NULL:
 * no ReLU). */
cudaError_t gpu__masked_sum(ct_dtype_t type, int64_t n, const void *dy, const void *dy2,
                            const void *y, void *dx, cudaStream_t stream);
/** Converts to another type, rounded to nearest. */
cudaError_t gpu__cast(ct_dtype_t from, ct_dtype_t to, int64_t n, const void *x, void *y,
                      cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
