/* Resizing, in either layout. */
#include "cuda/gpu.h"
#include "cuda/kernels/upsample.h"

static int upsample_prepare(ct_op_t *op, ct_op_info_t *info)
{
  (void)op;
  info->takes_dy2 = 1;
  return CT_OK;
}

/* Returns 1 if the coordinates are those of whole factors. */
static int is_whole(const ct_op_desc_t *d)
{
  int whole = d->u.upsample.mode != CT_RESIZE_BICUBIC && !d->u.upsample.align_corners;
  for (int i = 0; i < d->x.ndim - 2; i++) {
    ct_resize_dim_t r = ct_op_resize_dim(d, i);
    whole &= r.out % r.in == 0 && (r.scale == 0 || r.scale == (double)(r.out / r.in));
  }
  return whole;
}

static gpu__upsample_t sizes_of(const ct_op_desc_t *d)
{
  int missing = 5 - d->x.ndim, nhwc = d->x.layout == CT_NHWC;
  gpu__upsample_t u = {.outer = d->x.dim[0] * (nhwc ? 1 : d->x.dim[1]),
                       .inner = nhwc ? d->x.dim[1] : 1,
                       .in = {1},
                       .out = {1},
                       .linear = d->u.upsample.mode == CT_RESIZE_LINEAR,
                       .whole = is_whole(d)};
  u.dim[0] = (ct_resize_dim_t){.in = 1, .out = 1};
  for (int i = missing; i < 3; i++) {
    u.in[i] = d->x.dim[2 + i - missing];
    u.out[i] = d->y.dim[2 + i - missing];
    u.dim[i] = ct_op_resize_dim(d, i - missing);
  }
  return u;
}

static int upsample_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                        cudaStream_t s)
{
  int rc = CT_OK;
  ct_dtype_t t = op->desc.x.dtype;
  gpu__upsample_t u = sizes_of(&op->desc);
  (void)at;
  if (a->pass & CT_FWD) GPU_TRY(gpu__upsample(t, &u, a->x, a->y, s));
  if (a->pass & CT_BWD_DATA) GPU_TRY(gpu__upsample_backward(t, &u, a->dy, a->dy2, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_upsample = {
    .size = sizeof(ct_op_t), .reduced = 1, .prepare = upsample_prepare, .run = upsample_run};
