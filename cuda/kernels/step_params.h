/** \file step_params.h  Numbers that change from step to step.  Module-internal; for C and kernels.
 *
 * In a step that is repeated as a CUDA graph the arguments of its kernels stay as they were
 * recorded.  So a kernel that depends on such a number takes a dial by value and a pointer to
 * another: where the pointer is not NULL, what lies there counts (device memory that each start of
 * the graph fills anew). */
#ifndef GPU_DIAL_H
#define GPU_DIAL_H
#include "backend/ct_backend.h"

typedef struct gpu__dial {
  float scale;       /**< LOSS, GRADSTAT, MEASURE, UPDATE */
  ct_hyper_t hyper;  /**< MEASURE, UPDATE */
  ct_grad_ctl_t ctl; /**< MEASURE, UPDATE */
  uint64_t seed;     /**< DROPOUT */
  int64_t step, first;
} gpu__dial_t;

#endif
