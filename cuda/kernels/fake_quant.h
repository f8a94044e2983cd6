/** \file fake_quant.h  Fake quantization (backend/ct_fake_quant.h). Module-internal; local, Hot. */
#ifndef GPU_FAKE_QUANT_H
#define GPU_FAKE_QUANT_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Pure. Returns the bytes of scratch memory of gpu__fake_quant_follow(). */
size_t gpu__fake_quant_scratch(int64_t n);
/** Updates range[2] with the lowest and highest of x[n]. */
cudaError_t gpu__fake_quant_follow(int64_t n, const float *x, float *range, void *scratch,
                                   cudaStream_t stream);
/** Computes the rounded x[n], or with \a dy the gradient of x; y may be x or dy. */
cudaError_t gpu__fake_quant(int64_t n, const float *x, const float *dy, const float *range,
                            float *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
