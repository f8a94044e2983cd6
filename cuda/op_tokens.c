/* Ops at the start and end of sequences N x T x D: patches to tokens, and selection of one
 * token. */
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/concat.h"

/* ---- tokens ---- */

static int tokens_prepare(ct_op_t *op, ct_op_info_t *info)
{
  const ct_shape_t *y = &op->desc.y;
  int64_t sample = ct_shape_sample(y);
  info->y_layout = CT_PLAIN;
  if (op->desc.passes & CT_BWD_PARAM) info->scratch = gpu__column_sums_scratch(y->dim[0], sample);
  return CT_OK;
}

/* Runs TOKENS. In CT_NHWC a sample's patches have the same order as in y, after the class token.
 * The gradients of both parameters are sums over the batch; the gradient of the class token is that
 * of the first position. */
static int tokens_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const ct_shape_t *y = &op->desc.y;
  int64_t batch = y->dim[0], wide = y->dim[2], sample = ct_shape_sample(y);
  (void)at;
  if (a->pass & CT_FWD)
    GPU_TRY(gpu__tokens(y->dtype, batch, y->dim[1] - 1, wide, a->x, a->w[0], a->w[1], a->y, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__part(y->dtype, batch, sample, wide, sample - wide, a->dy, NULL, a->dx, s));
  if (a->pass & CT_BWD_PARAM) {
    GPU_TRY(gpu__column_sums(y->dtype, a->dy, batch, sample, a->dw[1], a->scratch, s));
    GPU_TRY(cudaMemcpyAsync(a->dw[0], a->dw[1], (size_t)wide * sizeof(float),
                            cudaMemcpyDeviceToDevice, s));
  }
out:
  return rc;
}

const gpu__kind_t gpu__kind_tokens = {
    .size = sizeof(ct_op_t), .reduced = 1, .nhwc = 1, .prepare = tokens_prepare, .run = tokens_run};

/* ---- select ---- */

static int select_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const ct_shape_t *x = &op->desc.x;
  int64_t index = op->desc.u.select.index, wide = x->dim[2], sample = x->dim[1] * wide;
  int64_t first = (index < 0 ? x->dim[1] + index : index) * wide;
  (void)at;
  if (a->pass & CT_FWD)
    GPU_TRY(gpu__part(x->dtype, x->dim[0], sample, first, wide, a->x, NULL, a->y, s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__pad_columns(x->dtype, x->dim[0], sample, first, wide, a->dy, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_select = {.size = sizeof(ct_op_t), .reduced = 1, .run = select_run};
