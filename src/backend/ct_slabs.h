/** \file ct_slabs.h  CONV_POOL made of the other ops of a backend.  Layer 1.
 *
 * The op computes y in slabs: ranges of rows along the first spatial dim, sample by sample.  A slab
 * is computed in workspace by the backend's own ops: the slab's input is copied, with the zeros of
 * the padding, then come convolution, activation and pooling, and the rows of y are copied to their
 * place.  All slabs have the same shape, so that one op of each kind serves them all; the last slab
 * begins earlier if the rows do not divide, and computes some rows again.
 *
 * Backward starts from the maxima's positions, which forward saved, and from the activation's
 * derivative at y.  Where this is not enough (ct_conv_pool_again()), it computes the slab's
 * convolution again.  The gradients of the parameters are added up slab by slab, and so are the
 * rows of dx that two slabs read; both orders are fixed. */
#ifndef CT_SLABS_H
#define CT_SLABS_H
#include "backend/ct_backend.h"

typedef struct ct_slabs ct_slabs_t;

/** Hot.  Enqueues the copy of \a count pieces of \a bytes bytes; the distances from one piece to
 * the next are in bytes too.  src NULL: writes zeros. */
typedef int ct_slabs_copy_fn(ct_queue_t *q, void *dst, size_t dst_step, const void *src,
                             size_t src_step, size_t bytes, int64_t count);

/** As ct_op_ops_t.supports and wants, for the CONV_POOL \a d of a valid descriptor. */
int ct_slabs_supports(const ct_op_ops_t *ops, ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
ct_layout_t ct_slabs_wants(const ct_op_ops_t *ops, ct_dev_t *dev, const ct_op_desc_t *d);
/** Local.  Prepares the ops of a slab and fills *info.  \a like: ct_slabs_conv() of an op of the
 * same layer, or NULL.  *out is freed with ct_slabs_free(). */
int ct_slabs_make(const ct_op_ops_t *ops, ct_slabs_copy_fn *copy, ct_dev_t *dev,
                  const ct_op_desc_t *d, const ct_op_t *like, ct_slabs_t **out, ct_op_info_t *info);
/** Hot.  Enqueues the passes args->pass. */
int ct_slabs_run(ct_slabs_t *s, ct_queue_t *q, const ct_op_args_t *args);
/** Returns the convolution, which packs and unpacks the parameters. */
ct_op_t *ct_slabs_conv(const ct_slabs_t *s);
/** Frees the ops; \a s may be NULL. */
void ct_slabs_free(ct_slabs_t *s);

#endif
