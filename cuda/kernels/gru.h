/** \file gru.h  One step of a GRU layer. Module-internal.
 *
 * Tensors are stored sample by sample: [n, t, ...]. Gates are r, z, n with h values each. Places
 * are those in the sequence; a step in reverse has the place after it before it. */
#ifndef GPU_GRU_H
#define GPU_GRU_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu__gru {
  ct_dtype_t type; /**< of y, dy, dsums, dstates and before; all others are float32 */
  int64_t n, t, h; /**< samples, steps, hidden size */
} gpu__gru_t;

/** sums [n,t,3h]: the inputs' products; states [n,3h]: the products of the state of \a before,
 * which is a place, or -1 at the first step (states are not read). Biases may be NULL. Writes gates
 * [n,t,4h]: r, z, n, and n's part of the state; and y [n,t,h]. */
cudaError_t gpu__gru_step(const gpu__gru_t *k, int64_t place, int64_t before, const float *bias_ih,
                          const float *bias_hh, const float *sums, const float *states,
                          float *gates, void *y, cudaStream_t stream);

/** Arrays of the backward pass of a step. */
typedef struct gpu__gru_back {
  const float *gates; /**< from the forward pass */
  const void *y, *dy;
  float *dh;             /**< [n,h]: gradient of y from the next step, not read if `last`; on return
                             the part of that for the step before that passes no product */
  void *dsums, *dstates; /**< [n,t,3h] output */
  void *before;          /**< [n,t,h] output: y of the step before, zero at the first */
} gpu__gru_back_t;

cudaError_t gpu__gru_step_backward(const gpu__gru_t *k, int64_t place, int64_t before, int last,
                                   const gpu__gru_back_t *b, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
