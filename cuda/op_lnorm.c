/* Layer normalization over the last dims, or by their root mean square. Saved from forward to
 * backward: mean and 1 / std per row. */
#include "cuda/gpu.h"
#include "cuda/kernels/lnorm.h"

typedef struct lnorm_op {
  ct_op_t head;
  int64_t rows, wide;
} lnorm_op_t;

static int lnorm_prepare(ct_op_t *op, ct_op_info_t *info)
{
  lnorm_op_t *k = (lnorm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  k->wide = ct_op_normalised(d);
  k->rows = ct_shape_count(&d->x) / k->wide;
  info->adds_dx = info->inplace_fwd = info->inplace_bwd = 1;
  if (d->passes & CT_BWD_PARAM) info->scratch = gpu__lnorm_scratch(k->rows, k->wide);
  /* the kernels of both gradients read x and dy */
  if (d->passes & CT_BWD_PARAM && d->passes & CT_BWD_DATA)
    info->extra_bytes[1] = 2 * (double)ct_shape_bytes(&d->x);
  info->kernels[1] = (d->passes & CT_BWD_DATA ? 1 : 0) + (d->passes & CT_BWD_PARAM ? 2 : 0);
  if (ct_op_goes_back(d)) info->saved = (size_t)(2 * k->rows) * sizeof(float);
  return CT_OK;
}

static int lnorm_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                     cudaStream_t s)
{
  int rc = CT_OK;
  const lnorm_op_t *k = (const lnorm_op_t *)op;
  float *stats = ct_op_goes_back(&op->desc) ? a->saved : NULL, eps = (float)op->desc.u.lnorm.eps;
  ct_dtype_t type = op->desc.x.dtype;
  int rms = op->desc.u.lnorm.rms;
  (void)at;
  if (a->pass & CT_FWD)
    GPU_TRY(gpu__lnorm(type, k->rows, k->wide, eps, a->x, a->w[0], rms ? NULL : a->w[1], a->y,
                       stats, s));
  if (a->pass & CT_BWD_PARAM) /* first, since dx may overwrite dy */
    GPU_TRY(gpu__lnorm_param(type, k->rows, k->wide, a->x, stats, a->dy, a->dw[0],
                             rms ? NULL : a->dw[1], a->scratch, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__lnorm_data(type, k->rows, k->wide, a->x, a->w[0], stats, a->dy, a->dx_add, rms,
                            a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_lnorm = {.size = sizeof(lnorm_op_t),
                                     .reduced = 1,
                                     .nhwc = -1,
                                     .prepare = lnorm_prepare,
                                     .run = lnorm_run};
