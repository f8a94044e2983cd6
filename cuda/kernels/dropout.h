/** \file dropout.h  Dropout's kernel.  Module-internal; local, Hot. */
#ifndef GPU_DROPOUT_H
#define GPU_DROPOUT_H
#include <cuda_runtime_api.h>

#include "backend/ct_dropout.h"
#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where the elements of a batch lie: [samples][space][channels], of which the plain layout is
 * [samples][channels][space]; where that is the layout, channels is 1. */
typedef struct gpu__dropout_shape {
  int64_t samples, space, channels;
} gpu__dropout_shape_t;

/** y = x times the elements' factors (ct_dropout.h); y may be x.  rule->seed comes from the
 * dial. */
cudaError_t gpu__dropout(ct_dtype_t type, const gpu__dropout_shape_t *shape,
                         const ct_dropout_t *rule, const gpu__dial_t *dial, const gpu__dial_t *at,
                         const void *x, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
