/** \file ct_op_parts.h  CONCAT, and ops on parts of larger tensors.  Layer 1. */
#ifndef CT_OP_PARTS_H
#define CT_OP_PARTS_H
#include "backend/ct_op.h"

/** Returns the dim along which CONCAT joins its inputs. */
int ct_op_concat_dim(const ct_op_desc_t *d);
/** Returns the number of consecutive elements that CONCAT copies from an input, or to the output,
 * of shape \a s, all in the layout of d->x; they include the padding of whole blocks. */
int64_t ct_op_concat_row(const ct_op_desc_t *d, const ct_shape_t *s);
/** Returns 1 for a CONCAT whose first input is in its place already. */
static inline int ct_op_is_placed(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONCAT && d->u.concat.placed;
}
/** Returns the shape of the tensor that holds x, or y, of which it may be a part. */
ct_shape_t ct_op_around_x(const ct_op_desc_t *d);
ct_shape_t ct_op_around_y(const ct_op_desc_t *d);

#endif
