/* Which ops can be run on single elements of sequences. */
#include "backend/ct_element.h"
#include "backend/ct_op_parts.h"

/* Returns 1 if a map leaves the samples and the elements of their sequences in place. */
static int map_keeps(const ct_op_desc_t *d)
{
  int x_dims = d->u.strided.x_view_dims, y_dims = d->u.strided.y_view_dims;
  const int64_t *x = x_dims ? d->u.strided.x_view : d->x.dim;
  const int64_t *y = y_dims ? d->u.strided.y_view : d->y.dim;
  for (int i = 0; i < 2; i++)
    if (d->u.strided.from[i] != i || d->u.strided.step[i] != 1 || d->u.strided.start[i] ||
        x[i] != y[i] || x[i] != d->y.dim[i])
      return 0;
  return 1;
}

int ct_op_by_element(const ct_op_desc_t *d, int64_t n, int64_t t)
{
  int last = d->x.ndim - 1;
  if (d->kind == CT_OP_LOSS || d->kind == CT_OP_OPERAND) return 1;
  if (d->y.ndim < 2 || d->y.dim[0] != n || d->y.dim[1] != t) return 0;
  switch (d->kind) {
  case CT_OP_LINEAR:
    return last >= 2;
  case CT_OP_RELU:
  case CT_OP_ACT:
  case CT_OP_EXPR:
  case CT_OP_ADD:
  case CT_OP_ROWS:
  case CT_OP_DROPOUT:
  case CT_OP_POSITION: /* the place of an element is known */
  case CT_OP_ROPE:
    return 1;
  case CT_OP_LNORM:
    return d->x.ndim - (d->u.lnorm.dims > 1 ? d->u.lnorm.dims : 1) >= 2;
  case CT_OP_SOFTMAX:
    return d->u.softmax.dim >= 2;
  case CT_OP_CONCAT:
    return ct_op_concat_dim(d) >= 2;
  case CT_OP_REORDER:
    return last >= 1 && d->x.dim[0] == d->y.dim[0] && d->x.dim[1] == d->y.dim[1];
  case CT_OP_STRIDED:
    return map_keeps(d);
  default:
    return 0;
  }
}

const char *ct_cache_check(const ct_op_desc_t *d)
{
  if (d->passes != CT_FWD) return "a cache has no gradient";
  if (d->x.ndim != 3 || d->y.ndim != 3) return "a cache takes N x T x F and is N x S x F";
  int same = d->x.dim[0] == d->y.dim[0] && d->x.dim[2] == d->y.dim[2];
  return same ? NULL : "other samples or features";
}
