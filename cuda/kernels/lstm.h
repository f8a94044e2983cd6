/** \file lstm.h  One step of an LSTM layer's cells. Module-internal.
 *
 * Tensors are stored sample by sample: [n, t, ...]. The gates are i, f, g, o with h values each. */
#ifndef GPU_LSTM_H
#define GPU_LSTM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu__lstm {
  ct_dtype_t type; /**< of y, dy, dgates and before; all others are float32 */
  int64_t n, t, h; /**< samples, steps, hidden size */
  int reverse;     /**< 1: step 0 is the last place of the sequence */
} gpu__lstm_t;

/** gates [n,t,4h] hold the GEMM results of the step and are replaced by the gates; writes this step
 * of cells [n,t,h] and y [n,t,h]. Biases may be NULL. */
cudaError_t gpu__lstm_step(const gpu__lstm_t *k, int64_t step, const float *bias_ih,
                           const float *bias_hh, float *gates, float *cells, void *y,
                           cudaStream_t stream);

/** Arrays of the backward pass of a step. */
typedef struct gpu__lstm_back {
  const float *gates, *cells; /**< from the forward pass */
  const void *y, *dy;
  const float *dh; /**< [n,h] gradient of y from the next step; not read at the last step */
  float *dc;       /**< [n,h] gradient of the cells from the next step; on return, the gradient for
                      the previous step */
  void *dgates;    /**< [n,t,4h] output: gradients of the gates before their activations */
  void *before;    /**< [n,t,h] output: y of the previous step, zero at the first; NULL: not wanted,
                      and y is not read */
} gpu__lstm_back_t;

cudaError_t gpu__lstm_step_backward(const gpu__lstm_t *k, int64_t step, const gpu__lstm_back_t *b,
                                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
