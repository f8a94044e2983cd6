/** \file step_params.h  Step parameters: kernel arguments that change from step to step.
 * Module-internal; for C and kernels.
 *
 * When a step is replayed as a CUDA graph, its kernel arguments keep their captured values. So
 * kernels that depend on step parameters get them by value and also a pointer: if the pointer is
 * not NULL, the kernel uses the values to which it points, in device memory that is refilled before
 * each launch of the graph. */
#ifndef GPU_STEP_PARAMS_H
#define GPU_STEP_PARAMS_H
#include "backend/ct_backend.h"

typedef struct gpu__step_params {
  float scale;       /**< LOSS, GRADSTAT, MEASURE, UPDATE */
  ct_hyper_t hyper;  /**< MEASURE, UPDATE */
  ct_grad_ctl_t ctl; /**< MEASURE, UPDATE */
  uint64_t seed;     /**< DROPOUT */
  int64_t step, first;
} gpu__step_params_t;

#endif
