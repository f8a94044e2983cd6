/* Broadcasting: the dims and strides of an elementwise op. */
#include "backend/ct_expr_view.h"

#include <string.h>

int ct_expr_inputs(const ct_op_desc_t *d)
{
  return 1 + (d->x2.ndim > 0) + (d->x3.ndim > 0);
}

const ct_shape_t *ct_expr_shape(const ct_op_desc_t *d, int k)
{
  return k == 0 ? &d->x : k == 1 ? &d->x2 : &d->x3;
}

static int block_of(ct_layout_t layout)
{
  return layout == CT_C16 ? 16 : layout == CT_C8 ? 8 : 1;
}

int ct_expr_layout_fits(const ct_op_desc_t *d, ct_layout_t y)
{
  if (y != CT_PLAIN && (d->y.ndim < 3 || d->y.dim[1] % block_of(y))) return 0;
  for (int k = 0; k < ct_expr_inputs(d); k++) {
    const ct_shape_t *s = ct_expr_shape(d, k);
    if (s->layout != (s->ndim == d->y.ndim ? y : CT_PLAIN)) return 0;
    /* the weight has no layout, so it must not have dims that a layout would move */
    if (ct_expr_param(d, k) >= 0 && s->ndim == d->y.ndim && y != CT_PLAIN) return 0;
  }
  return 1;
}

ct_layout_t ct_expr_wants(const ct_op_desc_t *d)
{
  ct_op_desc_t as = *d;
  const ct_shape_t *most = NULL;
  for (int k = 0; k < ct_expr_inputs(d); k++) {
    const ct_shape_t *s = ct_expr_shape(d, k);
    if (ct_expr_param(d, k) < 0 && s->ndim == d->y.ndim &&
        (!most || ct_shape_count(s) > ct_shape_count(most)))
      most = s;
  }
  if (!most) return CT_PLAIN;
  ct_layout_t want = most->layout;
  ct_shape_t *all[] = {&as.x, &as.x2, &as.x3};
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    all[k]->layout = all[k]->ndim == d->y.ndim ? want : CT_PLAIN;
  return ct_expr_layout_fits(&as, want) ? want : CT_PLAIN;
}

/* Strides of an input along y's dims; those of channels are in two: blocks, and lanes in one. */
typedef struct steps {
  int64_t dim[CT_MAX_DIMS], lane;
} steps_t;

/* Returns the strides of an input; 0 where it is broadcast.  block: of y's layout. */
static steps_t steps_of(const ct_shape_t *s, int ndim, int block)
{
  steps_t t = {{0}, 0};
  int own = block_of(s->layout), late = s->layout == CT_NHWC, more = ndim - s->ndim;
  int64_t at = late ? s->dim[1] : own, channel = late ? 1 : 0;
  for (int i = s->ndim - 1; i >= 0; i--) {
    if ((late || own > 1) && i == 1) { /* channels are not in the row-major order */
      if (own > 1) channel = at, at *= (s->dim[1] + own - 1) / own;
      continue;
    }
    t.dim[more + i] = s->dim[i] == 1 ? 0 : at;
    at *= s->dim[i];
  }
  int axis = 1 - more; /* the input's dim that is y's channels */
  if (axis < 0 || s->dim[axis] == 1) {
    if (ndim > 1) t.dim[1] = 0;
    return t;
  }
  if (own > 1) {
    t.dim[1] = channel;
    t.lane = 1;
  } else if (late) {
    t.dim[1] = channel;
  } else if (block > 1) {
    t.lane = t.dim[1];
    t.dim[1] *= block;
  }
  return t;
}

/* Appends a dim, in one with the dim before it if all inputs allow it. */
static void append(ct_expr_view_t *v, int64_t size, const int64_t stride[CT_EXPR_INPUTS])
{
  int joins = v->dims > 0, last = v->dims - 1;
  if (size == 1) return;
  for (int k = 0; joins && k < v->inputs; k++)
    joins = v->stride[k][last] == stride[k] * size;
  if (!joins) last = v->dims++;
  v->dim[last] = joins ? v->dim[last] * size : size;
  for (int k = 0; k < v->inputs; k++)
    v->stride[k][last] = stride[k];
}

static void append_dim(ct_expr_view_t *v, int64_t size, const steps_t steps[CT_EXPR_INPUTS], int i)
{
  int64_t stride[CT_EXPR_INPUTS];
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    stride[k] = i < 0 ? steps[k].lane : steps[k].dim[i];
  append(v, size, stride);
}

static void note_whole(ct_expr_view_t *v)
{
  for (int k = 0; k < v->inputs; k++) {
    int64_t at = 1;
    v->whole[k] = 1;
    for (int i = v->dims - 1; i >= 0; i--) {
      v->whole[k] &= v->stride[k][i] == at || v->dim[i] == 1;
      at *= v->dim[i];
    }
  }
}

ct_expr_view_t ct_expr_view_of(const ct_op_desc_t *d, ct_layout_t y)
{
  ct_expr_view_t v = {.inputs = ct_expr_inputs(d), .count = ct_shape_count(&d->y)};
  steps_t steps[CT_EXPR_INPUTS] = {{{0}, 0}};
  int ndim = d->y.ndim, block = block_of(y), late = y == CT_NHWC;
  const int64_t *dim = d->y.dim;
  for (int k = 0; k < v.inputs; k++) {
    steps[k] = steps_of(ct_expr_shape(d, k), ndim, block);
    v.elements[k] = ct_shape_padded(ct_expr_shape(d, k));
  }
  append_dim(&v, dim[0], steps, 0);
  for (int i = 1; i < ndim; i++) {
    if (i == 1 && late) continue;
    append_dim(&v, i == 1 ? dim[i] / block : dim[i], steps, i);
  }
  if (late) append_dim(&v, dim[1], steps, 1);
  if (block > 1) append_dim(&v, block, steps, -1);
  if (v.dims == 0) v.dim[v.dims++] = 1;
  note_whole(&v);
  return v;
}
