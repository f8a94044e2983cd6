/** \file update.h  The optimizer's kernels.  Module-internal; local, Hot.
 *
 * What a run of MEASURE or UPDATE needs to know of the whole step (is it skipped, by how much is
 * the gradient clipped, the trust ratio) is worked out once, by one thread, into the op's work
 * space: the statistics lie in the host's memory, which thousands of blocks should not read.  Of a
 * short range, which has few blocks, each of them works it out.  A run overwrites the work space of
 * the run before it: all runs of an op are enqueued on one stream, in order. */
#ifndef GPU_UPDATE_H
#define GPU_UPDATE_H
#include <cuda_runtime_api.h>

#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A flat range; arrays are float32. */
typedef struct gpu__range {
  int64_t count;
  const float *g;
  float *w;
  float *state[CT_RULE_STATES]; /**< NULL: not there, and not touched */
  void *low;                    /**< the new weights rounded to low_type; NULL: not wanted */
  ct_dtype_t low_type;
} gpu__range_t;

/** Bytes of work space of one op, in device memory. */
size_t gpu__update_bytes(void);
/** *stat (page-locked host memory) += the sum of |g * scale|^p, or the largest of them if p is
 * infinite, and the number of those that are not finite. */
cudaError_t gpu__gradstat(double p, int64_t count, const float *g, const gpu__dial_t *dial,
                          const gpu__dial_t *at, ct_grad_stat_t *stat, void *work,
                          cudaStream_t stream);
/** norms[2], device memory: sums of squares of w and of what the rule measures (ct_rules.h); 0 if
 * the step is skipped.  May change the states. */
cudaError_t gpu__measure(ct_rule_t rule, const gpu__range_t *r, const gpu__dial_t *dial,
                         const gpu__dial_t *at, double *norms, void *work, cudaStream_t stream);
/** One step of the rule.  \a norms: what MEASURE found, or NULL. */
cudaError_t gpu__update(ct_rule_t rule, const gpu__range_t *r, const gpu__dial_t *dial,
                        const gpu__dial_t *at, const double *norms, void *work,
                        cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
