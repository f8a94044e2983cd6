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
  gpu__dropout_shape_t shape = {d->x.dim[0], ct_shape_sample(&d->x), 1};
  gpu__step_params_t params = gpu__step_params(a);
  if (!d->training) {
    if (x == y) return CT_OK;
    return GPU_CHECK(cudaMemcpyAsync(y, x, ct_shape_bytes(&d->x), cudaMemcpyDeviceToDevice, s));
  }
  if (d->x.layout == CT_NHWC) {
    shape.channels = d->x.dim[1];
    shape.space /= shape.channels;
  }
  return GPU_CHECK(gpu__dropout(d->x.dtype, &shape, &rule, &params, at, x, y, s));
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

const gpu__kind_t gpu__kind_dropout = {
    .size = sizeof(ct_op_t), .reduced = 1, .prepare = dropout_prepare, .run = dropout_run};
