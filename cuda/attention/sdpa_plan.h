/** \file sdpa_plan.h  cuDNN plans for scaled dot-product attention. Module-internal.
 *
 * sdpa_graph.c describes the passes to cuDNN and finds plans, sdpa_dnn.c keeps and runs them. */
#ifndef GPU_SDPA_PLAN_H
#define GPU_SDPA_PLAN_H
#include "cuda/conv/dnn.h"
#include "cuda/kernels/attention.h"

/** The key of a plan: a pass of attention. */
typedef struct gpu__sdpa_spec {
  ct_dtype_t type;
  gpu__attention_t shape;
  int back; /**< 1: the backward pass */
  int sm;   /**< compute capability of the device: 90 for 9.0 */
} gpu__sdpa_spec_t;

/** Tensor ids: of both passes, and of the backward pass alone. SCALE and ONE are numbers in host
 * memory: the factor of the scores, and 1. The last of each pass, if it is causal, is the number
 * behind the others: the score of hidden keys. */
enum {
  GPU_SDPA_Q = 1,
  GPU_SDPA_K,
  GPU_SDPA_V,
  GPU_SDPA_C,
  GPU_SDPA_STATS,
  GPU_SDPA_SCALE,
  GPU_SDPA_FORWARD_IDS = GPU_SDPA_SCALE,
  GPU_SDPA_DC,
  GPU_SDPA_DQ,
  GPU_SDPA_DK,
  GPU_SDPA_DV,
  GPU_SDPA_SUMS,
  GPU_SDPA_ONE,
  GPU_SDPA_BACKWARD_IDS = GPU_SDPA_ONE
};

/** Pure. Returns 1 if cuDNN supports the type and the shape. */
int gpu__sdpa_fits(const gpu__sdpa_spec_t *spec);
/** Local. Makes a plan whose sums have a fixed order. \a version: cuDNN's. CT_ERR_UNSUP: cuDNN has
 * no plan that works, perhaps since it does not find NVRTC, which compiles these kernels. */
int gpu__sdpa_plan(const gpu__dnn_target_t *t, const gpu__sdpa_spec_t *spec, size_t version,
                   gpu__dnn_plan_t *out);

#endif
