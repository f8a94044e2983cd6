/** \file update.h  Optimizer kernels. Module-internal; local, Hot.
 *
 * A run of MEASURE or UPDATE depends on properties of the whole step: whether the step is skipped,
 * and the clipping factor. If these depend on the statistics, which are in host memory that
 * thousands of blocks should not read, one thread computes them first into the op's workspace. For
 * a short range, which has few blocks, each block computes the properties itself. A run overwrites
 * the workspace of the previous run: all runs of an op are enqueued on one stream, in order.
 *
 * One launch processes many parameters (segments) in chunks of CT_SEGMENT_CHUNK elements. The sums
 * of a parameter are those of its chunks, added in a fixed order: they do not depend on the other
 * parameters or on the number of blocks. */
#ifndef GPU_UPDATE_H
#define GPU_UPDATE_H
#include <cuda_runtime_api.h>

#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A contiguous range of elements, or segments of it; arrays are float32. */
typedef struct gpu__range {
  int64_t count;               /**< of all segments */
  const ct_segment_t *segment; /**< device memory; NULL: one parameter of `count` elements */
  int segments;
  double *norms; /**< device memory: pairs of sums; NULL: none */
  const float *g;
  float *w;
  float *state[CT_RULE_STATES]; /**< NULL: not present, and not accessed */
  void *reduced;                /**< output: new weights rounded to low_type; NULL: not wanted */
  ct_dtype_t reduced_type;
} gpu__range_t;

/** Returns the workspace bytes, in device memory, of an op for up to \a count elements in up to
 * \a segments segments. */
size_t gpu__update_bytes(int64_t count, int segments);
/** Adds to *stat (page-locked host memory) the sum of |g * scale|^p, or if p is infinite takes the
 * maximum of |g * scale|; also adds the number of values that are not finite. */
cudaError_t gpu__gradstat(double p, int64_t count, const float *g, const gpu__step_params_t *params,
                          const gpu__step_params_t *at, ct_grad_stat_t *stat, void *work,
                          cudaStream_t stream);
/** Computes r->norms: per parameter the sums of squares of w and of the values that the rule's
 * MEASURE function returns (ct_rules.h); 0 if the step is skipped. May change the states. */
cudaError_t gpu__norms(ct_rule_t rule, const gpu__range_t *r, const gpu__step_params_t *params,
                       const gpu__step_params_t *at, void *work, cudaStream_t stream);
/** Runs one optimizer step. r->norms: result of gpu__norms(), or NULL. */
cudaError_t gpu__update(ct_rule_t rule, const gpu__range_t *r, const gpu__step_params_t *params,
                        const gpu__step_params_t *at, void *work, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
