/** \file ct_expr_view.h  Where the operands of an elementwise op lie in memory.  Layer 1.
 *
 * The elements of y are visited in the order of their memory.  In this order they have few dims:
 * dims of size 1 are left out, and adjacent dims are one if all inputs allow it.  An input that is
 * broadcast along a dim has stride 0 there. */
#ifndef CT_EXPR_VIEW_H
#define CT_EXPR_VIEW_H
#include "backend/ct_op.h"

typedef struct ct_expr_view {
  int dims; /**< at least 1 */
  int64_t dim[CT_MAX_DIMS + 1];
  int64_t stride[CT_EXPR_INPUTS][CT_MAX_DIMS + 1]; /**< in elements */
  int64_t count;                                   /**< elements of y */
  int inputs;
  int64_t elements[CT_EXPR_INPUTS]; /**< of each input, with the padding of its layout */
  int whole[CT_EXPR_INPUTS];        /**< 1: the input has y's elements in y's order */
} ct_expr_view_t;

/** Returns the number of inputs of an EXPR, the weight included. */
int ct_expr_inputs(const ct_op_desc_t *d);
/** Returns the shape of input \a k of an EXPR. */
const ct_shape_t *ct_expr_shape(const ct_op_desc_t *d, int k);
/** Returns the number of the parameter that is input \a k of an EXPR; -1: the input is none. */
static inline int ct_expr_param(const ct_op_desc_t *d, int k)
{
  return k <= d->u.expr.weight ? k - 1 : -1;
}
/** Returns 1 if an EXPR can have y in layout \a y with each input in its own layout: plain; or an
 * image layout that inputs with y's number of dims have too, others being plain, and whose blocks
 * y's channels fill. */
int ct_expr_layout_fits(const ct_op_desc_t *d, ct_layout_t y);
/** Returns the view of a valid EXPR whose layouts fit; y is in layout \a y. */
ct_expr_view_t ct_expr_view_of(const ct_op_desc_t *d, ct_layout_t y);
/** Returns the layout that an EXPR gets if the input with the most elements keeps its own: that
 * layout or, where it does not fit, plain. */
ct_layout_t ct_expr_wants(const ct_op_desc_t *d);

#endif
