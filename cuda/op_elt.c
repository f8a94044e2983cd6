/* ReLU and addition. */
#include "cuda/gpu.h"
#include "cuda/kernels/elt.h"

static int elt_prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int elt_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  int adds = d->kind == CT_OP_ADD, relu = !adds || d->u.add.relu;
  int64_t n = ct_shape_count(&d->x);
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__sum(d->x.dtype, n, a->x, adds ? a->x2 : NULL, relu, a->y, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__masked_sum(d->x.dtype, n, a->dy, a->dy2, relu ? a->y : NULL, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_relu = {
    .size = sizeof(ct_op_t), .reduced = 1, .prepare = elt_prepare, .run = elt_run};
const gpu__kind_t gpu__kind_add = {
    .size = sizeof(ct_op_t), .reduced = 1, .prepare = elt_prepare, .run = elt_run};
