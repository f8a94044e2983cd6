/** \file bias.h  Biases and their gradients, on rows of channels. Module-internal; for C and
 * kernels. */
#ifndef GPU_KERNELS_BIAS_H
#define GPU_KERNELS_BIAS_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y[rows][channels] += bias[channels] (NULL: no bias), then ReLU if \a relu. y and bias
 * are of \a type. NaN stays NaN. */
cudaError_t gpu__bias_relu(ct_dtype_t type, void *y, const void *bias, int relu, int64_t rows,
                           int64_t channels, cudaStream_t s);

/** Returns the workspace bytes of gpu__column_sums(). */
size_t gpu__column_sums_scratch(int64_t rows, int64_t channels);
/** Computes out[c] = sum of dy[rows][channels] over the rows, in float32, always in the same
 * order. */
cudaError_t gpu__column_sums(ct_dtype_t type, const void *dy, int64_t rows, int64_t channels,
                             float *out, void *scratch, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
