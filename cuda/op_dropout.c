/* Dropout. The mask is recomputed in the backward pass, so nothing is saved. */
#include "cuda/gpu.h"
#include "cuda/kernels/dropout.h"

static int dropout_prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int drop(const ct_op_desc_t *d, const ct_op_args_t *a, const gpu__step_params_t *at,
                const void *x, void *y, cudaStream_t s)
{
  ct_dropout_t rule = ct_dropout_make(a->seed, a->step, d->u.dropout.layer, d->u.dropout.p);
  gpu__dropout_shape_t shape = {1, ct_op_dropped_samples(d), 0, 1, 1};
  gpu__step_params_t params = gpu__step_params(a);
  if (d->u.dropout.unscaled) rule.factor = 1;
  if (!d->training) {
    if (x == y) return CT_OK;
    return GPU_CHECK(cudaMemcpyAsync(y, x, ct_shape_bytes(&d->x), cudaMemcpyDeviceToDevice, s));
  }
  if (d->u.dropout.whole) {
    shape = (gpu__dropout_shape_t){1, d->x.dim[0], ct_shape_sample(&d->x), 1, 1};
    if (d->u.dropout.rows > 1) shape.rows = d->u.dropout.rows;
    if (d->u.dropout.whole > 1) shape.rows = 0;
    return GPU_CHECK(gpu__drop_rows(d->x.dtype, &shape, &rule, &params, at, x, y, s));
  }
  for (int i = 0; i < d->u.dropout.dim; i++)
    shape.outer *= d->x.dim[i];
  if (shape.samples > 0 && shape.outer > 0)
    shape.space = ct_shape_count(&d->x) / shape.outer / shape.samples;
  if (d->x.layout == CT_NHWC) {
    shape.channels = d->x.dim[1];
    shape.space /= shape.channels;
  }
  return GPU_CHECK(gpu__dropout(d->x.dtype, &shape, &rule, &params, at, x, y, s));
}

/* A sample that is not an index of dim 0 is only known in the plain layout. */
static int dropout_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->u.dropout.whole) return 1;
  if ((!d->u.dropout.dim && d->u.dropout.rows <= 1) || d->x.layout == CT_PLAIN) return 1;
  return gpu__cannot(why, "such samples are dropped in the plain layout only");
}

/* Runs dropout in either direction: the gradient is masked and scaled like the value. */
static int dropout_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                       cudaStream_t s)
{
  int rc = CT_OK;
  if (a->pass & CT_FWD) CT_TRY(drop(&op->desc, a, at, a->x, a->y, s));
  if (a->pass & CT_BWD_DATA) CT_TRY(drop(&op->desc, a, at, a->dy, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_dropout = {.size = sizeof(ct_op_t),
                                       .reduced = 1,
                                       .supports = dropout_supports,
                                       .prepare = dropout_prepare,
                                       .run = dropout_run};
