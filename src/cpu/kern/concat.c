/* Concatenation: y holds in turn a run of consecutive elements of each input.  Runs are whole
 * samples, the channels of a pixel, the features of a step, or what else follows the dim of
 * concatenation in memory.  In blocked layouts the second input begins at a block boundary only if
 * the channels of the first fill its blocks; if not, the op asks for the plain layout.
 *
 * If y is a part of a larger tensor, its runs are as far apart as those of that tensor.  If x is in
 * its place already, only the second input is copied; and in backward only its gradient, if dx is
 * dy. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

typedef struct concat {
  ct_op_t op;
  int64_t stretches;      /* number of runs of each input */
  int64_t one, two;       /* elements of a run of the first and of the second input */
  int64_t x_step, y_step; /* elements from run to run of x and dx, and of y and dy */
} concat_t;

static void concat_forward(const concat_t *k, const ct_op_args_t *a)
{
  ct_dtype_t t = k->op.desc.x.dtype;
  size_t element = ct_dtype_size(t);
  int copies = !k->op.desc.u.concat.placed;

#pragma omp parallel for if (k->stretches * k->y_step > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < k->stretches; i++) {
    if (copies)
      memcpy(cpu__at(a->y, i * k->y_step, t), cpu__at(a->x, i * k->x_step, t),
             (size_t)k->one * element);
    memcpy(cpu__at(a->y, i * k->y_step + k->one, t), cpu__at(a->x2, i * k->two, t),
           (size_t)k->two * element);
  }
}

static void concat_backward(const concat_t *k, const ct_op_args_t *a)
{
  ct_dtype_t t = k->op.desc.x.dtype;
  const cpu__loops_t *loops = cpu__loops(k->op.dev, t);
  int first = a->dx && (a->dx != a->dy || a->dy2);

#pragma omp parallel for if (k->stretches * k->y_step > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < k->stretches; i++) {
    int64_t at = i * k->y_step, at2 = at + k->one;
    if (first)
      loops->add(k->one, cpu__at(a->dy, at, t), cpu__at(a->dy2, at, t),
                 cpu__at(a->dx, i * k->x_step, t), 0, 0);
    if (a->dx2)
      loops->add(k->two, cpu__at(a->dy, at2, t), cpu__at(a->dy2, at2, t),
                 cpu__at(a->dx2, i * k->two, t), 0, 0);
  }
}

static int concat_run(ct_op_t *op, const ct_op_args_t *a)
{
  const concat_t *k = (const concat_t *)op;

  if (a->pass & CT_FWD) concat_forward(k, a);
  if (a->pass & CT_BWD_DATA) concat_backward(k, a);
  return CT_OK;
}

/* Returns 1 if the second input can follow the first in this layout. */
static int fits(const ct_op_desc_t *d)
{
  const ct_shape_t *x = &d->x;
  if ((d->within || d->u.concat.placed) && x->layout == CT_NHWC) return 0;
  if (d->within && d->y.dim[1] % cpu__view(x).lanes) return 0;
  if (x->ndim < 4)
    return x->layout == CT_PLAIN || (x->ndim == 2 && x->dim[1] % cpu__view(x).lanes == 0);
  return x->layout == CT_NHWC || ct_op_concat_dim(d) != 1 || x->dim[1] % cpu__view(x).lanes == 0;
}

static ct_layout_t concat_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return fits(d) ? d->x.layout : CT_PLAIN;
}

static int concat_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (fits(d)) return 1;
  snprintf(why, 128, "an input does not fill its last block of channels, or is a sequence");
  return 0;
}

static int concat_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  concat_t *k = (concat_t *)op;
  ct_shape_t x2 = ct_op_second(&op->desc), x = ct_op_around_x(&op->desc),
             y = ct_op_around_y(&op->desc);

  (void)like;
  x2.layout = op->desc.x.layout;
  k->one = ct_op_concat_row(&op->desc, &op->desc.x);
  k->two = ct_op_concat_row(&op->desc, &x2);
  k->x_step = ct_op_concat_row(&op->desc, &x);
  k->y_step = ct_op_concat_row(&op->desc, &y);
  k->stretches = ct_shape_padded(&x2) / k->two;
  info->takes_dy2 = 1;
  info->inplace_bwd = op->desc.u.concat.placed;
  return CT_OK;
}

const cpu__op_kind_t cpu__concat = {.size = sizeof(concat_t),
                                    .bf16 = 1,
                                    .wants = concat_wants,
                                    .supports = concat_supports,
                                    .prepare = concat_prepare,
                                    .run = concat_run};
