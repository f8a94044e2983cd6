/** \file gemm/primitive.h  Common part of the algorithms that call a oneDNN primitive.
 * Module-internal. */
#ifndef CT_CPU_PRIMITIVE_H
#define CT_CPU_PRIMITIVE_H
#include "cpu/gemm/algorithm.h"

/** Local.  Creates the memory descriptor of a convolution's weights; with several groups it has a
 * leading dim for the group. */
int cpu__conv_weights(const ct_op_desc_t *d, ct_dtype_t dtype, int format, cpu__md_t **out);
/** Local.  Creates oneDNN's primitive descriptor for the job; oneDNN chooses the format of w.  *out
 * is NULL with CT_OK if oneDNN has no implementation. */
int cpu__primitive_find(const cpu__job_t *job, cpu__prim_t **out);
/** Local.  Returns the format of w that the primitive of cpu__primitive_find() has. */
int cpu__primitive_format(const cpu__job_t *job, cpu__md_t **out);
/** Local.  Builds the primitive; takes ownership of \a prim. */
int cpu__primitive_build(const cpu__job_t *job, cpu__prim_t *prim, cpu__ready_t *out);

/* Entries of cpu__algo_t.  (oneDNN's own ReLU turns NaN into 0, unlike PyTorch's.) */

int cpu__primitive_prepare(const cpu__job_t *job, cpu__ready_t *out);
int cpu__primitive_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES]);
void cpu__primitive_clear(cpu__ready_t *ready);

#endif
