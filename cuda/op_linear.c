/* Fully connected layers over the last dim: one GEMM over all rows, including bias, addition and
 * ReLU. Weights are in plain layout. */
#include "cuda/dense.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/elt.h"

/* Elements of weights that are large enough for a GEMM of their own that adds their gradient. */
enum { LARGE = 1 << 21, ALIGN = 64 };

typedef struct linear_op {
  ct_op_t head;
  gpu__dense_t dense;
  size_t sums; /* offset in scratch: the gradient of a bias before it is added */
} linear_op_t;

static int linear_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  gpu__dense_spec_t spec = {.passes = d->passes,
                            .in = d->x.dim[d->x.ndim - 1],
                            .out = d->y.dim[d->y.ndim - 1],
                            .type = d->x.dtype,
                            .y_type = d->x.dtype,
                            .bias = d->u.linear.bias,
                            .relu = d->u.linear.relu,
                            .add = d->u.linear.add};
  linear_op_t *l = (linear_op_t *)op;
  spec.rows = ct_shape_count(&d->x) / spec.in;
  info->algorithm = "product";
  gpu__gradient_kernels(d, d->u.linear.bias, info);
  info->inplace_second = d->u.linear.add;
  info->adds_dw = spec.adds_dw = d->passes & CT_BWD_PARAM && spec.in * spec.out >= LARGE;
  CT_TRY(gpu__dense_make(op->dev, &spec, &l->dense, &info->scratch));
  info->scratch = l->sums = (info->scratch + ALIGN - 1) / ALIGN * ALIGN;
  if (info->adds_dw && spec.bias) (void)gpu__take(&info->scratch, spec.out, sizeof(float));
out:
  return rc;
}

/* Adds to the gradients of the parameters. */
static int add_gradients(const linear_op_t *l, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__dense_t *d = &l->dense;
  float *sums = (float *)(void *)((char *)a->scratch + l->sums);
  CT_TRY(gpu__dense_param_add(d, a->x, a->dy, a->dw[0], a->scratch, s));
  if (!d->spec.bias) goto out;
  GPU_TRY(gpu__column_sums(d->spec.type, a->dy, d->spec.rows, d->spec.out, sums, a->scratch, s));
  GPU_TRY(gpu__sum(CT_F32, d->spec.out, a->dw[1], sums, 0, a->dw[1], s));
out:
  return rc;
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
  if (a->pass & CT_BWD_PARAM && a->adds_dw)
    CT_TRY(add_gradients((const linear_op_t *)op, a, s));
  else if (a->pass & CT_BWD_PARAM)
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
                                      .low = 3,
                                      .nhwc = -1,
                                      .prepare = linear_prepare,
                                      .run = linear_run,
                                      .clear = linear_clear};
