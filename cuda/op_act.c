/* Activations other than ReLU. */
#include "cuda/gpu.h"
#include "cuda/kernels/act.h"

static int act_prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int act_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  ct_act_t kind = d->u.act.kind;
  float alpha = (float)d->u.act.alpha;
  int64_t n = ct_shape_count(&d->x);
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__act(kind, alpha, d->x.dtype, n, a->x, a->y, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__act_gradient(kind, alpha, d->x.dtype, n, a->dy, a->dy2,
                              ct_op_uses(d) & CT_USES_X ? a->x : a->y, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_act = {
    .size = sizeof(ct_op_t), .reduced = 1, .prepare = act_prepare, .run = act_run};
