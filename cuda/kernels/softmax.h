/** \file softmax.h  Softmax along a dim, and its logarithm. Module-internal; local, Hot.
 *
 * Tensors are [outer, count, inner] and of the type \a type; sums are float32. With inner 1 a warp
 * handles a row, else a thread handles a column. Sums have a fixed order. */
#ifndef GPU_SOFTMAX_H
#define GPU_SOFTMAX_H
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu__softmax_shape {
  int64_t outer, count, inner;
  int log_of;
  float scale; /**< of x; only with inner 1 and log_of 0 */
} gpu__softmax_t;

/** y may be x. */
cudaError_t gpu__softmax(ct_dtype_t type, const gpu__softmax_t *d, const void *x, void *y,
                         cudaStream_t stream);
/** Computes the gradient of x (times the scale) from y; dx may be dy. */
cudaError_t gpu__softmax_back(ct_dtype_t type, const gpu__softmax_t *d, const void *y,
                              const void *dy, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
