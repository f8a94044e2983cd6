/* A parameter or buffer as a value. */
#include "cuda/gpu.h"
#include "cuda/kernels/elt.h"

static int operand_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                       cudaStream_t s)
{
  int rc = CT_OK;
  const ct_shape_t *y = &op->desc.y;
  int64_t n = ct_shape_count(y);
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__cast(CT_F32, y->dtype, n, a->w[0], a->y, s));
  if (a->pass & CT_BWD_PARAM) GPU_TRY(gpu__cast(y->dtype, CT_F32, n, a->dy, a->dw[0], s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_operand = {
    .size = sizeof(ct_op_t), .reduced = 1, .nhwc = -1, .run = operand_run};
