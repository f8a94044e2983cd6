/* Softmax along a dim, and its logarithm. */
#include "cuda/gpu.h"
#include "cuda/kernels/softmax.h"

typedef struct softmax_op {
  ct_op_t head;
  gpu__softmax_t shape;
} softmax_op_t;

static int softmax_prepare(ct_op_t *op, ct_op_info_t *info)
{
  gpu__softmax_t *s = &((softmax_op_t *)op)->shape;
  const ct_op_desc_t *d = &op->desc;
  *s = (gpu__softmax_t){.outer = 1,
                        .count = d->x.dim[d->u.softmax.dim],
                        .inner = 1,
                        .log_of = d->u.softmax.log,
                        .scale = 1};
  for (int i = 0; i < d->x.ndim; i++) {
    if (i < d->u.softmax.dim) s->outer *= d->x.dim[i];
    if (i > d->u.softmax.dim) s->inner *= d->x.dim[i];
  }
  info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int softmax_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                       cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__softmax_t *d = &((const softmax_op_t *)op)->shape;
  ct_dtype_t t = op->desc.x.dtype;
  (void)at;
  if (ct_shape_count(&op->desc.x) == 0) return CT_OK;
  if (a->pass & CT_FWD) GPU_TRY(gpu__softmax(t, d, a->x, a->y, s));
  if (a->pass & CT_BWD_DATA) GPU_TRY(gpu__softmax_back(t, d, a->y, a->dy, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_softmax = {.size = sizeof(softmax_op_t),
                                       .reduced = 1,
                                       .nhwc = -1,
                                       .prepare = softmax_prepare,
                                       .run = softmax_run};
