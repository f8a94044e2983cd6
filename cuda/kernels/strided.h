/** \file strided.h  Copies by a map of indices, and their gradients. Module-internal; local,
 * Hot. */
#ifndef GPU_STRIDED_H
#define GPU_STRIDED_H
#include <cuda_runtime_api.h>

#include "backend/ct_strided.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Copies elements of \a type, which are not changed, by \a w; outside of x: \a value. */
cudaError_t gpu__strided(ct_dtype_t type, const ct_walk_t *w, const void *x, double value, void *y,
                         cudaStream_t stream);
/** Computes each element of dx as the sum of dy over the places that read it, in their order. The
 * lists of \a r are in device memory. */
cudaError_t gpu__strided_sum(ct_dtype_t type, const ct_readers_t *r, const void *dy, void *dx,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
