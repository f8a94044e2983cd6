/* Convolution: the product is cuDNN's (product.h), the bias's gradient is not. */
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"

typedef struct conv {
  ct_op_t op;
  gpu__conv_t *product;
} conv_t;

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  int g = d->u.conv.groups;
  (void)dev;
  if (d->x.ndim < 4 || d->y.ndim != d->x.ndim)
    return gpu__cannot(why, "a convolution takes N x C x H x W or N x C x D x H x W");
  if (d->x.dim[0] != d->y.dim[0]) return gpu__cannot(why, "input and output differ in batch size");
  if (g < 1 || d->x.dim[1] % g || d->y.dim[1] % g)
    return gpu__cannot(why, "the channels are not a multiple of the groups");
  for (int i = 0; i < d->x.ndim - 2; i++) {
    int kernel = d->u.conv.kernel[i], stride = d->u.conv.stride[i];
    int pad = d->u.conv.pad[i], dilate = d->u.conv.dilate[i];
    if (kernel < 1 || stride < 1 || pad < 0 || dilate < 1)
      return gpu__cannot(why, "kernel, stride and dilation are at least 1, padding at least 0");
    if (d->y.dim[2 + i] != ct_op_window_out(d->x.dim[2 + i], kernel, stride, pad, dilate))
      return gpu__cannot(why, "the output's size is not what the window gives");
  }
  return 1;
}

static int64_t taps(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = 0; i < d->x.ndim - 2; i++)
    n *= d->u.conv.kernel[i];
  return n;
}

static int prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  conv_t *c = (conv_t *)op;
  const ct_op_desc_t *d = &op->desc;
  CT_TRY(gpu__conv_make(op->dev, d, &c->product, &info->scratch, &info->algorithm));
  op->turn[0] = (gpu__turn_t){
      .outer = d->y.dim[1], .middle = d->x.dim[1] / d->u.conv.groups, .inner = taps(d)};
  info->param_bytes[0] =
      (size_t)(op->turn[0].outer * op->turn[0].middle * op->turn[0].inner) * sizeof(float);
  info->bwd_uses = d->passes & CT_BWD_PARAM ? CT_USES_X : 0;
  if (d->u.conv.bias) {
    size_t sums = gpu__column_sums_scratch(gpu__rows(&d->y), d->y.dim[1]);
    info->param_bytes[1] = (size_t)d->y.dim[1] * sizeof(float);
    if (d->passes & CT_BWD_PARAM && sums > info->scratch) info->scratch = sums;
  }
out:
  return rc;
}

static int run_weights(const conv_t *c, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &c->op.desc;
  CT_TRY(gpu__conv_backward_weight(c->product, a->x, a->dy, a->dw[0], a->scratch, s));
  if (d->u.conv.bias)
    GPU_TRY(gpu__column_sums(d->y.dtype, a->dy, gpu__rows(&d->y), d->y.dim[1], a->dw[1], a->scratch,
                             s));
out:
  return rc;
}

static int run(ct_op_t *op, const ct_op_args_t *a, const gpu__dial_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  conv_t *c = (conv_t *)op;
  int low = op->desc.x.dtype != CT_F32;
  const void *w = low ? a->w_low[0] : a->w[0], *bias = low ? a->w_low[1] : a->w[1];
  (void)at;
  if (a->pass & CT_FWD) CT_TRY(gpu__conv_forward(c->product, a->x, w, bias, a->y, a->scratch, s));
  if (a->pass & CT_BWD_DATA && a->dx)
    CT_TRY(gpu__conv_backward_data(c->product, a->dy, w, a->dx, a->scratch, s));
  if (a->pass & CT_BWD_PARAM) CT_TRY(run_weights(c, a, s));
out:
  return rc;
}

static void clear(ct_op_t *op)
{
  gpu__conv_free(((conv_t *)op)->product);
}

const gpu__kind_t gpu__kind_conv = {.size = sizeof(conv_t),
                                    .low = 1,
                                    .supports = supports,
                                    .nhwc = 1,
                                    .prepare = prepare,
                                    .run = run,
                                    .clear = clear};
