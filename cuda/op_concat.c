/* Concatenation along a dim. Rows are the consecutive elements from this dim on. */
#include "cuda/gpu.h"
#include "cuda/kernels/concat.h"

/* Refuses sequences in layouts other than plain, in which features are not contiguous. */
static int concat_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->within || d->u.concat.placed) return gpu__cannot(why, "tensors are whole");
  if (d->x.ndim > 3 || d->x.layout == CT_PLAIN) return 1;
  return gpu__cannot(why, "sequences can be concatenated in the plain layout only");
}

static int concat_prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->takes_dy2 = 1;
  return CT_OK;
}

static int concat_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  int64_t one = ct_op_concat_row(d, &d->x), two = ct_op_concat_row(d, &d->y) - one;
  int64_t rows = ct_shape_count(&d->x) / one;
  if (rows == 0) return CT_OK;
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

const gpu__kind_t gpu__kind_concat = {.size = sizeof(ct_op_t),
                                      .reduced = 1,
                                      .supports = concat_supports,
                                      .prepare = concat_prepare,
                                      .run = concat_run};
