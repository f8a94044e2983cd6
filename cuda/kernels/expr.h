/** \file expr.h  Elementwise programs and random numbers. Module-internal; local, Hot. */
#ifndef GPU_EXPR_H
#define GPU_EXPR_H
#include <cuda_runtime_api.h>

#include "backend/ct_expr_view.h"
#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A program and where its inputs lie; a kernel argument. */
typedef struct gpu__expr {
  ct_expr_t program;
  ct_expr_view_t view;
} gpu__expr_t;

/** Arrays of a run, of one type, but inputs that are weights are float32. */
typedef struct gpu__expr_arrays {
  const void *in[CT_EXPR_INPUTS];
  const void *dy, *dy2; /**< dy2 NULL: 0 */
  void *y;
  void *dx[CT_EXPR_INPUTS];   /**< gradients of inputs that are not broadcast; NULL: none */
  float *all[CT_EXPR_INPUTS]; /**< gradients of broadcast inputs for each element of y, whose sums
                                   gpu__expr_sum() makes; NULL: none */
} gpu__expr_arrays_t;

/** The values and gradients of a backward pass. */
typedef struct gpu__expr_pulls {
  ct_expr_need_t need;
  uint32_t step[3]; /**< bit i of step[k]: the gradient of operand k of step i is computed */
} gpu__expr_pulls_t;

/** Sets y. */
cudaError_t gpu__expr_forward(const gpu__expr_t *e, ct_dtype_t type, const gpu__expr_arrays_t *a,
                              cudaStream_t stream);
/** Sets dx and all. */
cudaError_t gpu__expr_backward(const gpu__expr_t *e, ct_dtype_t type, const gpu__expr_pulls_t *what,
                               const gpu__expr_arrays_t *a, cudaStream_t stream);

/** Returns the number of parts in which gpu__expr_sum() adds the terms of a broadcast input. */
int64_t gpu__expr_chunks(const ct_expr_view_t *v, int input);
/** Sets the gradient of a broadcast input to the sums of \a all, in a fixed order. \a part: memory
 * for as many numbers as chunks times elements. */
cudaError_t gpu__expr_sum(const ct_expr_view_t *v, int input, ct_dtype_t type, const float *all,
                          double *part, void *dx, cudaStream_t stream);

/** Writes random numbers (ct_random.h) to [samples][space]. */
cudaError_t gpu__random(ct_dtype_t type, int64_t samples, int64_t space, int kind, double p,
                        uint32_t layer, const gpu__step_params_t *params,
                        const gpu__step_params_t *at, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
