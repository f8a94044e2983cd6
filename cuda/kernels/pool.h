/** \file pool.h  Pooling kernels. Module-internal; local, Hot.
 *
 * Activations are of \a type, channels last: x and dx [batch, in, channels], y and dy [batch, out,
 * channels]. Sums are float32 in a fixed order. */
#ifndef GPU_POOL_H
#define GPU_POOL_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Windows over depth, height and width; images have depth 1. The number of elements of one image
 * line must fit an int, for input and output. */
typedef struct gpu__windows {
  int64_t batch;
  int channels, in[3], out[3];
  int adaptive;  /**< adaptive pooling: output i of n covers the inputs floor(i in / n) to ceil((i +
                   1) in / n) - 1; kernel, stride and pad are ignored */
  int kernel[3]; /**< extents of the windows, gaps included; adaptive: at least the largest */
  int stride[3], pad[3];
  int dilate[3];   /**< pixels from tap to tap */
  int include_pad; /**< averages divide by the window's part of the padded image */
  int divisor;     /**< averages divide by it instead; 0: no */
} gpu__windows_t;

/** The position of a maximum in its window is stored as one byte if all windows are small
 * enough. */
#define GPU_POOL_BYTE_ARGMAX 255
/** Pure. Returns the bytes per element of the array `argmax` below. */
size_t gpu__pool_argmax_size(const gpu__windows_t *g);

/** Computes y = maximum of each window, then ReLU if \a relu. argmax: position of the maximum in
 * its window, or a value for "none" if the ReLU gave 0; argmax NULL: not stored. */
cudaError_t gpu__max_pool(ct_dtype_t type, const gpu__windows_t *g, int relu, const void *x,
                          void *y, void *argmax, cudaStream_t stream);
/** Computes dx: for each input, the sum of dy + dy2 (dy2 NULL: dy) over the outputs whose maximum
 * is this input. */
cudaError_t gpu__max_pool_backward(ct_dtype_t type, const gpu__windows_t *g, const void *argmax,
                                   const void *dy, const void *dy2, void *dx, cudaStream_t stream);
/** Computes y = the mean of each window. */
cudaError_t gpu__average_pool(ct_dtype_t type, const gpu__windows_t *g, const void *x, void *y,
                              cudaStream_t stream);
cudaError_t gpu__average_pool_backward(ct_dtype_t type, const gpu__windows_t *g, const void *dy,
                                       const void *dy2, void *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
