/* Activations other than ReLU. */
#include "cuda/gpu.h"
#include "cuda/kernels/act.h"

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  int kind = d->u.act.kind;
  (void)dev;
  if (!ct_shape_same(&d->x, &d->y)) return gpu__cannot(why, "input and output differ in shape");
  if (kind < CT_ACT_LEAKY_RELU || kind > CT_ACT_SILU) return gpu__cannot(why, "unknown activation");
  if (kind == CT_ACT_LEAKY_RELU && !(d->u.act.alpha >= 0))
    return gpu__cannot(why, "the negative slope is below 0");
  if (kind == CT_ACT_TANH && !(d->u.act.alpha > 0))
    return gpu__cannot(why, "the factor is not above 0");
  return 1;
}

static int prepare(ct_op_t *op, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &op->desc;
  if (d->passes & CT_BWD_DATA)
    info->bwd_uses = gpu__act_needs_x((ct_act_t)d->u.act.kind) ? CT_USES_X : CT_USES_Y;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int run(ct_op_t *op, const ct_op_args_t *a, const gpu__dial_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  ct_act_t kind = (ct_act_t)d->u.act.kind;
  float alpha = (float)d->u.act.alpha;
  int64_t n = ct_shape_count(&d->x);
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__act(kind, alpha, d->x.dtype, n, a->x, a->y, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__act_gradient(kind, alpha, d->x.dtype, n, a->dy, a->dy2,
                              gpu__act_needs_x(kind) ? a->x : a->y, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_act = {
    .size = sizeof(ct_op_t), .low = 1, .supports = supports, .prepare = prepare, .run = run};
