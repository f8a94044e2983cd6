/** \file pool.h  Kernels of pooling.  Module-internal; local, Hot.
 *
 * Activations are of \a type, channels last: x and dx [batch, in, channels], y and dy [batch, out,
 * channels].  All sums are float32 in a fixed order. */
#ifndef GPU_POOL_H
#define GPU_POOL_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Windows over depth, height and width; images have depth 1.  The elements of one line of the
 * image, and of one of the output, must be an int. */
typedef struct gpu__windows {
  int64_t batch;
  int channels, in[3], out[3];
  int adaptive; /**< output i of n is of the inputs floor(i in / n) up to ceil((i + 1) in / n); the
                     rest counts for nothing then */
  int kernel[3], stride[3], pad[3];
  int include_pad; /**< averages divide by the whole window */
} gpu__windows_t;

/** Where in its window a maximum was found is kept as one byte where all windows allow it. */
#define GPU_POOL_BYTE_PLACES 255
/** Pure.  Bytes per element of y of `places` below. */
size_t gpu__pool_place_size(const gpu__windows_t *g);

/** y = the largest of each window, then ReLU.  Places: where it was, or nowhere if the ReLU cut it
 * off; NULL: not kept. */
cudaError_t gpu__max_pool(ct_dtype_t type, const gpu__windows_t *g, int relu, const void *x,
                          void *y, void *places, cudaStream_t stream);
/** dx = the sum of dy + dy2 (NULL: dy) over the outputs that came from there. */
cudaError_t gpu__max_pool_backward(ct_dtype_t type, const gpu__windows_t *g, const void *places,
                                   const void *dy, const void *dy2, void *dx, cudaStream_t stream);
/** y = the mean of each window. */
cudaError_t gpu__average_pool(ct_dtype_t type, const gpu__windows_t *g, const void *x, void *y,
                              cudaStream_t stream);
cudaError_t gpu__average_pool_backward(ct_dtype_t type, const gpu__windows_t *g, const void *dy,
                                       const void *dy2, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
