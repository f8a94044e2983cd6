/* Dropout: x * mask / (1 - p); the same for the gradient.  Each pass recomputes the mask
 * (ct_dropout.h). */
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* Processes one group of channels of one image, channel by channel; padding becomes 0.  first:
 * index of the image's first element in its sample. */
static void drop_group(const ct_op_t *op, const ct_dropout_t *drop, const cpu__view_t *v,
                       int64_t position, int64_t first, int64_t group, const void *in, void *out)
{
  ct_dtype_t t = op->desc.x.dtype;
  size_t size = ct_dtype_size(t);

  for (int64_t lane = 0; lane < v->lanes; lane++) {
    int64_t c = group * v->lanes + lane;
    if (c < v->c) {
      cpu__loops(op->dev, t)
          ->drop(drop, position, first + c * v->inner, v->inner, v->lanes, cpu__at(in, lane, t),
                 cpu__at(out, lane, t));
    } else {
      for (int64_t i = 0; i < v->inner; i++)
        memset(cpu__at(out, i * v->lanes + lane, t), 0, size);
    }
  }
}

/* Returns the factor of a whole row. */
static float factor_of_row(const ct_dropout_t *drop, int64_t position, int64_t row)
{
  float factor[CT_DROPOUT_BLOCK];
  ct_dropout_factors(drop, position, row / CT_DROPOUT_BLOCK, factor);
  return factor[row % CT_DROPOUT_BLOCK];
}

static void drop_batch(const ct_op_t *op, const ct_op_args_t *a, const void *in, void *out)
{
  const ct_op_desc_t *d = &op->desc;
  ct_dtype_t t = d->x.dtype;
  cpu__view_t v = cpu__view(&d->x);
  ct_dropout_t drop = ct_dropout_make(a->seed, a->step, d->u.dropout.layer, d->u.dropout.p);

  if (v.lanes == 1) { /* plain: a sample is contiguous */
    v.inner *= v.groups;
    v.groups = v.c = 1;
  }
  int64_t tasks = v.n * v.groups, size = v.inner * v.lanes, row = ct_shape_sample(&d->x);
  int64_t rows = d->u.dropout.rows > 1 ? d->u.dropout.rows : 1;
#pragma omp parallel for if (tasks * size > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    const void *from = cpu__at(in, i * size, t);
    void *to = cpu__at(out, i * size, t);
    int64_t image = i / v.groups, position = a->first + image / rows, at = image % rows;
    if (d->u.dropout.whole)
      cpu__loops(op->dev, t)->scale(factor_of_row(&drop, position, at), size, from, to);
    else
      drop_group(op, &drop, &v, position, at * row, i % v.groups, from, to);
  }
}

/* Runs a pass: applies dropout in training, copies in evaluation. */
static void pass(const ct_op_t *op, const ct_op_args_t *a, const void *in, void *out)
{
  if (op->desc.training) {
    drop_batch(op, a, in, out);
  } else if (out != in) {
    memcpy(out, in, ct_shape_bytes(&op->desc.x));
  }
}

static int dropout_run(ct_op_t *op, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) pass(op, a, a->x, a->y);
  if (a->pass & CT_BWD_DATA) pass(op, a, a->dy, a->dx);
  return CT_OK;
}

static int dropout_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)op;
  (void)like;
  info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__dropout = {
    .size = sizeof(ct_op_t), .bf16 = 1, .prepare = dropout_prepare, .run = dropout_run};
