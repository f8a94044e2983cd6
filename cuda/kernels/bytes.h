/** \file bytes.h  Converts samples stored as bytes. Module-internal; local, Hot. */
#ifndef GPU_BYTES_H
#define GPU_BYTES_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y = a[c] * x + b[c] for \a batch samples of [channels][space]; affine: all a, then all
 * b. x_last, y_last: 1 if x or y is channels last, 0 if channels first. */
cudaError_t gpu__from_bytes(ct_dtype_t to, int64_t batch, int64_t channels, int64_t space,
                            int x_last, int y_last, const uint8_t *x, const float *affine, void *y,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
