/* Fully connected layers over the last dim: one GEMM over all rows, including bias, addition and
 * ReLU. Weights are in plain layout. */
#include "cuda/dense.h"

typedef struct linear_op {
  ct_op_t head;
  gpu__dense_t dense;
} linear_op_t;

static int linear_prepare(ct_op_t *op, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &op->desc;
  gpu__dense_spec_t spec = {.passes = d->passes,
                            .in = d->x.dim[d->x.ndim - 1],
                            .out = d->y.dim[d->y.ndim - 1],
                            .type = d->x.dtype,
                            .y_type = d->x.dtype,
                            .bias = d->u.linear.bias,
                            .relu = d->u.linear.relu,
                            .add = d->u.linear.add};
  spec.rows = ct_shape_count(&d->x) / spec.in;
  info->algorithm = "product";
  gpu__gradient_kernels(d, d->u.linear.bias, info);
  info->inplace_second = d->u.linear.add;
  return gpu__dense_make(op->dev, &spec, &((linear_op_t *)op)->dense, &info->scratch);
}

static int linear_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__dense_t *d = &((linear_op_t *)op)->dense;
  const void *w = gpu__factor(op, a, 0), *bias = d->spec.bias ? gpu__factor(op, a, 1) : NULL;
  (void)at;
  if (a->pass & CT_FWD && d->spec.add)
    CT_TRY(gpu__dense_forward_add(d, a->x, w, bias, a->x2, a->y, a->scratch, s));
  else if (a->pass & CT_FWD)
    CT_TRY(gpu__dense_forward(d, a->x, w, bias, a->y, a->scratch, s));
  if (a->pass & CT_BWD_DATA) CT_TRY(gpu__dense_data(d, a->dy, w, a->dx, a->scratch, s));
  if (a->pass & CT_BWD_PARAM)
    CT_TRY(
        gpu__dense_param(d, a->x, a->dy, a->dw[0], d->spec.bias ? a->dw[1] : NULL, a->scratch, s));
out:
  return rc;
}

static void linear_clear(ct_op_t *op)
{
  gpu__dense_clear(&((linear_op_t *)op)->dense);
}

const gpu__kind_t gpu__kind_linear = {.size = sizeof(linear_op_t),
                                      .reduced = 1,
                                      .nhwc = -1,
                                      .prepare = linear_prepare,
                                      .run = linear_run,
                                      .clear = linear_clear};
