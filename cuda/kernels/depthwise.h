/** \file depthwise.h  Depthwise convolutions of images: one filter per channel. Module-internal;
 * for C and kernels.
 *
 * Depthwise convolutions are memory-bound, so a library's matrix products do not help. */
#ifndef GPU_KERNELS_DEPTHWISE_H
#define GPU_KERNELS_DEPTHWISE_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_DEPTHWISE_TAPS = 49 }; /**< maximum window elements */

/** x [n, in[0], in[1], channels] to y [n, out[0], out[1], channels]; filters [channels, kernel[0],
 * kernel[1]]. */
typedef struct gpu__depthwise {
  int64_t n, channels;
  int in[2], out[2], kernel[2], stride[2], pad[2], dilate[2];
} gpu__depthwise_t;

/** Computes y; bias NULL: none. All arrays are of \a type. */
cudaError_t gpu__depthwise_forward(ct_dtype_t type, const gpu__depthwise_t *d, const void *x,
                                   const void *w, const void *bias, int relu, void *y,
                                   cudaStream_t s);
cudaError_t gpu__depthwise_backward_data(ct_dtype_t type, const gpu__depthwise_t *d, const void *dy,
                                         const void *w, void *dx, cudaStream_t s);
/** Returns the workspace bytes of gpu__depthwise_backward_weight(). */
size_t gpu__depthwise_scratch(const gpu__depthwise_t *d);
/** Computes the weight gradient; sums in float32, always in the same order. */
cudaError_t gpu__depthwise_backward_weight(ct_dtype_t type, const gpu__depthwise_t *d,
                                           const void *x, const void *dy, float *dw, void *scratch,
                                           cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
