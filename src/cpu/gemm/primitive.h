/** \file product/primitive.h  What the ways that are a primitive of oneDNN have in common.
 * Module-internal. */
#ifndef CT_CPU_PRIMITIVE_H
#define CT_CPU_PRIMITIVE_H
#include "cpu/gemm/algorithm.h"

/** Local.  The weights of a convolution, with a leading dim of groups if it has several. */
int cpu__conv_weights(const ct_op_desc_t *d, ct_dtype_t dtype, int format, cpu__md_t **out);
/** Local.  oneDNN's primitive for the job, which chooses the format of w; NULL with CT_OK: it has
 * none. */
int cpu__primitive_find(const cpu__job_t *job, cpu__prim_t **out);
/** Local.  The format of w that it takes. */
int cpu__primitive_format(const cpu__job_t *job, cpu__md_t **out);
/** Local.  Builds it; takes \a prim over. */
int cpu__primitive_build(const cpu__job_t *job, cpu__prim_t *prim, cpu__ready_t *out);

/* Entries of cpu__way_t.  (oneDNN's own ReLU makes 0 of NaN, unlike PyTorch's.) */

int cpu__primitive_prepare(const cpu__job_t *job, cpu__ready_t *out);
int cpu__primitive_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES]);
void cpu__primitive_clear(cpu__ready_t *ready);

#endif
