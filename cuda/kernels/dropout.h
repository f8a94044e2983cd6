/** \file dropout.h  Dropout kernel. Module-internal; local, Hot. */
#ifndef GPU_DROPOUT_H
#define GPU_DROPOUT_H
#include <cuda_runtime_api.h>

#include "backend/ct_dropout.h"
#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Layout of a batch: [outer][samples][space][channels]; the plain layout of a sample is
 * [outer][channels][space]. For a batch in plain layout, channels is 1; outer is above 1 only
 * there. */
typedef struct gpu__dropout_shape {
  int64_t outer, samples, space, channels;
  int64_t
      rows; /**< gpu__drop_rows(): `samples` counts rows, so many of each sample, or 0: all share
                     one factor; else 1 */
} gpu__dropout_shape_t;

/** Computes y = x * the dropout factors (ct_dropout.h); y may be x. The seed comes from the step
 * parameters, not from rule->seed. */
cudaError_t gpu__dropout(ct_dtype_t type, const gpu__dropout_shape_t *shape,
                         const ct_dropout_t *rule, const gpu__step_params_t *params,
                         const gpu__step_params_t *at, const void *x, void *y, cudaStream_t stream);

/** The same, but with one factor for all elements of a row. */
cudaError_t gpu__drop_rows(ct_dtype_t type, const gpu__dropout_shape_t *shape,
                           const ct_dropout_t *rule, const gpu__step_params_t *params,
                           const gpu__step_params_t *at, const void *x, void *y,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
