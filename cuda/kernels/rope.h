/** \file rope.h  Places in sequences, and rotation by them. Module-internal; local, Hot. */
#ifndef GPU_ROPE_H
#define GPU_ROPE_H
#include <cuda_runtime_api.h>

#include "backend/ct_rope.h"
#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y[n, t] = position[n] + t - first[n, t]; either may be NULL. */
cudaError_t gpu__position(int64_t n, int64_t steps, const int32_t *position, const float *first,
                          float *y, cudaStream_t stream);

/** Rows of features, [n, steps, width]. */
typedef struct gpu__rope {
  int64_t n, steps, width;
  int heads, dim, interleaved;
  int back;                /**< 1: the inverse rotation */
  const int32_t *position; /**< [n], or NULL: 0 */
  const float *given;      /**< places [n, steps]; NULL: position + step */
  float *keep;             /**< [n, steps], gets the places; or NULL */
  float frequency[CT_ROPE_MOST / 2];
} gpu__rope_t;

/** Rotates the heads; y may be x. */
cudaError_t gpu__rotate(const gpu__rope_t *r, ct_dtype_t type, const void *x, void *y,
                        cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
