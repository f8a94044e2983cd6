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

  if (d->u.dropout.unscaled) drop.factor = 1;
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
    if (d->u.dropout.whole > 1) position = at = 0;
    if (d->u.dropout.whole)
      cpu__loops(op->dev, t)->scale(factor_of_row(&drop, position, at), size, from, to);
    else
      drop_group(op, &drop, &v, position, at * row, i % v.groups, from, to);
  }
}

/* Returns 1 if the samples are not in dim 0. */
static int is_spread(const ct_op_desc_t *d)
{
  return d->u.dropout.dim > 0;
}

/* Processes samples of a plain tensor that are spread over it. */
static void drop_spread(const ct_op_t *op, const ct_op_args_t *a, const void *in, void *out)
{
  const ct_op_desc_t *d = &op->desc;
  ct_dtype_t t = d->x.dtype;
  const cpu__loops_t *loops = cpu__loops(op->dev, t);
  ct_dropout_t drop = ct_dropout_make(a->seed, a->step, d->u.dropout.layer, d->u.dropout.p);
  int64_t samples = ct_op_dropped_samples(d), outer = 1;
  if (d->u.dropout.unscaled) drop.factor = 1;
  for (int i = 0; i < d->u.dropout.dim; i++)
    outer *= d->x.dim[i];
  int64_t tasks = outer * samples, inner = tasks ? ct_shape_count(&d->x) / tasks : 0;

#pragma omp parallel for if (tasks * inner > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < tasks; i++)
    loops->drop(&drop, a->first + i % samples, i / samples * inner, inner, 1,
                cpu__at(in, i * inner, t), cpu__at(out, i * inner, t));
}

/* Runs a pass: applies dropout in training, copies in evaluation. */
static void pass(const ct_op_t *op, const ct_op_args_t *a, const void *in, void *out)
{
  if (op->desc.training && is_spread(&op->desc)) {
    drop_spread(op, a, in, out);
  } else if (op->desc.training) {
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

static ct_layout_t dropout_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return is_spread(d) ? CT_PLAIN : d->x.layout;
}

static int dropout_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (!is_spread(d) || d->x.layout == CT_PLAIN) return 1;
  strcpy(why, "the CPU backend drops such samples in the plain layout only");
  return 0;
}

static int dropout_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)op;
  (void)like;
  info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__dropout = {.size = sizeof(ct_op_t),
                                     .bf16 = 1,
                                     .wants = dropout_wants,
                                     .supports = dropout_supports,
                                     .prepare = dropout_prepare,
                                     .run = dropout_run};
