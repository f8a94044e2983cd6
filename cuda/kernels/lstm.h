/** \file lstm.h  The cells of an LSTM at one step.  Module-internal.
 *
 * All tensors lie sample by sample: [n, t, ...].  Gates are i, f, g, o of h numbers each. */
#ifndef GPU_LSTM_H
#define GPU_LSTM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu__lstm {
  ct_dtype_t type; /**< of y, dy, dgates and before; the rest is float32 */
  int64_t n, t, h; /**< samples, steps, numbers of a state */
} gpu__lstm_t;

/** gates [n,t,4h] hold the products' sums of the step and become the gates; writes the step of
 * cells [n,t,h] and of y [n,t,h]. */
cudaError_t gpu__lstm_step(const gpu__lstm_t *k, int64_t step, const float *bias_ih,
                           const float *bias_hh, float *gates, float *cells, void *y,
                           cudaStream_t stream);

/** What the backward pass of a step reads and writes. */
typedef struct gpu__lstm_back {
  const float *gates, *cells; /**< of the forward pass */
  const void *y, *dy;
  const float *dh; /**< [n,h] gradient of y from the step after; not read at the last step */
  float *dc;       /**< [n,h] of the cells, likewise; becomes that for the step before */
  void *dgates;    /**< [n,t,4h] of the gates' sums: written */
  void *before;    /**< [n,t,h] y of the step before, zero at the first: written; NULL: not wanted,
                       then y is not read */
} gpu__lstm_back_t;

cudaError_t gpu__lstm_step_backward(const gpu__lstm_t *k, int64_t step, const gpu__lstm_back_t *b,
                                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
