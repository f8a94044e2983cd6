/* Concatenation along dim 1: in rows, of whole samples where the layout is plain, else of one
 * place's channels. */
#include "cuda/gpu.h"
#include "cuda/kernels/parts.h"

static int prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->takes_dy2 = 1;
  return CT_OK;
}

static int run(ct_op_t *op, const ct_op_args_t *a, const gpu__dial_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  int64_t rows = d->x.layout == CT_NHWC ? gpu__rows(&d->x) : d->x.dim[0];
  if (rows == 0) return CT_OK;
  int64_t one = ct_shape_count(&d->x) / rows, two = ct_shape_count(&d->y) / rows - one;
  ct_dtype_t t = d->x.dtype;
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__join(t, rows, one, two, a->x, a->x2, a->y, s));
  if (a->pass & CT_BWD_DATA && a->dx)
    GPU_TRY(gpu__part(t, rows, one + two, 0, one, a->dy, a->dy2, a->dx, s));
  if (a->pass & CT_BWD_DATA && a->dx2)
    GPU_TRY(gpu__part(t, rows, one + two, one, two, a->dy, a->dy2, a->dx2, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_concat = {
    .size = sizeof(ct_op_t), .low = 1, .prepare = prepare, .run = run};
