/* Changes layout, type or dims: by transposing matrices or casting; also converts samples stored as
 * bytes. */
#include "cuda/gpu.h"
#include "cuda/kernels/bytes.h"
#include "cuda/kernels/elt.h"
#include "cuda/kernels/reorder.h"

/* Returns 1 if channels first and channels last are the same layout. */
static int is_either(const ct_shape_t *s)
{
  return s->ndim < 3 || s->dim[1] == 1 || ct_shape_sample(s) == s->dim[1];
}

static int known(const ct_shape_t *s)
{
  return s->layout == CT_PLAIN || s->layout == CT_NHWC;
}

static int reorder_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (!known(&d->x) || !known(&d->y))
    return gpu__cannot(why, "the CUDA backend knows the layouts plain and nhwc only");
  if (d->x.layout == CT_NHWC && d->y.layout == CT_NHWC && !ct_shape_same(&d->x, &d->y))
    return gpu__cannot(why, "nhwc can be reordered to nhwc with the same dims only");
  if (d->x.dtype == CT_U8 && !ct_shape_same(&d->x, &d->y))
    return gpu__cannot(why, "a conversion of bytes must keep the dims");
  return 1;
}

static int reorder_prepare(ct_op_t *op, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &op->desc;
  info->inplace_fwd = info->inplace_bwd = d->x.layout == d->y.layout && d->x.dtype == d->y.dtype;
  return CT_OK;
}

static int reorder_move(const ct_shape_t *from, const void *x, const ct_shape_t *to, void *y,
                        cudaStream_t s)
{
  int64_t n = ct_shape_count(from);
  const ct_shape_t *image = from->layout == CT_NHWC ? from : to;
  int64_t channels = image->ndim > 1 ? image->dim[1] : 1;
  if (from->layout == to->layout || is_either(image)) {
    if (from->dtype == to->dtype)
      return x == y || n == 0
                 ? CT_OK
                 : GPU_CHECK(cudaMemcpyAsync(y, x, ct_shape_bytes(from), cudaMemcpyDefault, s));
    return GPU_CHECK(gpu__cast(from->dtype, to->dtype, n, x, y, s));
  }
  int64_t batch = image->dim[0], space = batch && channels ? n / batch / channels : 0;
  int first = from->layout == CT_PLAIN; /* channels first */
  return GPU_CHECK(gpu__turn(from->dtype, to->dtype, batch, first ? channels : space,
                             first ? space : channels, x, y, s));
}

static int reorder_convert(const ct_op_desc_t *d, const ct_op_args_t *a, cudaStream_t s)
{
  int64_t batch = d->x.dim[0], channels = d->x.dim[1];
  return GPU_CHECK(gpu__from_bytes(d->y.dtype, batch, channels, ct_shape_sample(&d->x) / channels,
                                   d->x.layout == CT_NHWC, d->y.layout == CT_NHWC, a->x, a->affine,
                                   a->y, s));
}

static int reorder_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                       cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  (void)at;
  if (d->x.dtype == CT_U8) return reorder_convert(d, a, s);
  if (a->pass & CT_FWD) CT_TRY(reorder_move(&d->x, a->x, &d->y, a->y, s));
  if (a->pass & CT_BWD_DATA) CT_TRY(reorder_move(&d->y, a->dy, &d->x, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_reorder = {.size = sizeof(ct_op_t),
                                       .reduced = 1,
                                       .supports = reorder_supports,
                                       .prepare = reorder_prepare,
                                       .run = reorder_run};
