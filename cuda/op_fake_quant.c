/* Fake quantization of activations. */
#include "cuda/gpu.h"
#include "cuda/kernels/fake_quant.h"

static int fake_quant_prepare(ct_op_t *op, ct_op_info_t *info)
{
  info->inplace_fwd = !ct_op_goes_back(&op->desc); /* backward needs x */
  info->inplace_bwd = 1;
  if (op->desc.training) info->scratch = gpu__fake_quant_scratch(ct_shape_count(&op->desc.x));
  return CT_OK;
}

static int fake_quant_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                          cudaStream_t s)
{
  int rc = CT_OK;
  float *range = a->w[0];
  int64_t n = ct_shape_count(&op->desc.x);
  (void)at;
  if (a->pass & CT_FWD && op->desc.training && !a->keep_running && !a->again)
    GPU_TRY(gpu__fake_quant_follow(n, a->x, range, a->scratch, s));
  if (a->pass & CT_FWD) GPU_TRY(gpu__fake_quant(n, a->x, NULL, range, a->y, s));
  if (a->pass & CT_BWD_DATA) GPU_TRY(gpu__fake_quant(n, a->x, a->dy, range, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_fake_quant = {
    .size = sizeof(ct_op_t), .prepare = fake_quant_prepare, .run = fake_quant_run};
