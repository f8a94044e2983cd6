/** \file turn.h  Transposes of small matrices, such as weights. Module-internal; local, Hot. */
#ifndef GPU_KERNELS_TURN_H
#define GPU_KERNELS_TURN_H
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Copies from[outer][rows][columns] to to[outer][columns][rows]. */
cudaError_t gpu__turn(const float *from, float *to, int64_t outer, int64_t rows, int64_t columns,
                      cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
