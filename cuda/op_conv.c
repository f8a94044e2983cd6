/* Convolution: by a library (gemm_conv.h), or by our own kernels for depthwise convolutions of
 * images. The bias gradient is a column sum of dy in both cases. */
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/depthwise.h"

typedef struct conv {
  ct_op_t op;
  gpu__conv_t *dnn; /* NULL: depthwise */
  gpu__depthwise_t depthwise;
} conv_t;

static int64_t taps(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = 0; i < d->x.ndim - 2; i++)
    n *= d->u.conv.kernel[i];
  return n;
}

static int is_depthwise(const ct_op_desc_t *d)
{
  return d->x.ndim == 4 && d->u.conv.groups == d->x.dim[1] && d->x.dim[1] == d->y.dim[1] &&
         d->x.dim[1] > 1 && taps(d) <= GPU_DEPTHWISE_TAPS;
}

static gpu__depthwise_t depthwise_of(const ct_op_desc_t *d)
{
  gpu__depthwise_t out = {.n = d->x.dim[0], .channels = d->x.dim[1]};
  for (int i = 0; i < 2; i++) {
    out.in[i] = (int)d->x.dim[2 + i];
    out.out[i] = (int)d->y.dim[2 + i];
    out.kernel[i] = d->u.conv.kernel[i];
    out.stride[i] = d->u.conv.stride[i];
    out.pad[i] = d->u.conv.pad[i];
    out.dilate[i] = d->u.conv.dilate[i];
  }
  return out;
}

static int prepare_dnn(conv_t *c, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &c->op.desc;
  if (!is_depthwise(d))
    return gpu__conv_make(c->op.dev, d, &c->dnn, &info->scratch, &info->algorithm);
  c->depthwise = depthwise_of(d);
  info->algorithm = "depthwise";
  if (d->passes & CT_BWD_PARAM) info->scratch = gpu__depthwise_scratch(&c->depthwise);
  return CT_OK;
}

static int conv_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  conv_t *c = (conv_t *)op;
  const ct_op_desc_t *d = &op->desc;
  CT_TRY(prepare_dnn(c, info));
  gpu__gradient_kernels(d, d->u.conv.bias, info);
  op->turn[0] = (gpu__turn_t){
      .outer = d->y.dim[1], .middle = d->x.dim[1] / d->u.conv.groups, .inner = taps(d)};
  if (d->u.conv.bias && d->passes & CT_BWD_PARAM) {
    size_t sums = gpu__column_sums_scratch(gpu__rows(&d->y), d->y.dim[1]);
    if (sums > info->scratch) info->scratch = sums;
  }
out:
  return rc;
}

/* Returns parameter i in the type of x. */
static const void *weights(const conv_t *c, const ct_op_args_t *a, int i)
{
  return c->op.desc.x.dtype == CT_F32 ? a->w[i] : a->w_reduced[i];
}

static int conv_forward(const conv_t *c, const ct_op_args_t *a, cudaStream_t s)
{
  const ct_op_desc_t *d = &c->op.desc;
  const void *w = weights(c, a, 0), *bias = d->u.conv.bias ? weights(c, a, 1) : NULL;
  if (c->dnn) return gpu__conv_forward(c->dnn, a->x, w, bias, a->y, a->scratch, s);
  return GPU_CHECK(
      gpu__depthwise_forward(d->x.dtype, &c->depthwise, a->x, w, bias, d->u.conv.relu, a->y, s));
}

static int conv_backward_data(const conv_t *c, const ct_op_args_t *a, cudaStream_t s)
{
  const void *w = weights(c, a, 0);
  if (c->dnn) return gpu__conv_backward_data(c->dnn, a->dy, w, a->dx, a->scratch, s);
  return GPU_CHECK(
      gpu__depthwise_backward_data(c->op.desc.x.dtype, &c->depthwise, a->dy, w, a->dx, s));
}

static int backward_weight(const conv_t *c, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &c->op.desc;
  if (c->dnn)
    CT_TRY(gpu__conv_backward_weight(c->dnn, a->x, a->dy, a->dw[0], a->scratch, s));
  else
    GPU_TRY(gpu__depthwise_backward_weight(d->x.dtype, &c->depthwise, a->x, a->dy, a->dw[0],
                                           a->scratch, s));
  if (d->u.conv.bias)
    GPU_TRY(gpu__column_sums(d->y.dtype, a->dy, gpu__rows(&d->y), d->y.dim[1], a->dw[1], a->scratch,
                             s));
out:
  return rc;
}

static int conv_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const conv_t *c = (const conv_t *)op;
  (void)at;
  if (a->pass & CT_FWD) CT_TRY(conv_forward(c, a, s));
  if (a->pass & CT_BWD_DATA && a->dx) CT_TRY(conv_backward_data(c, a, s));
  if (a->pass & CT_BWD_PARAM) CT_TRY(backward_weight(c, a, s));
out:
  return rc;
}

static void conv_clear(ct_op_t *op)
{
  gpu__conv_free(((conv_t *)op)->dnn);
}

static int conv_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  return d->u.conv.add ? gpu__cannot(why, "the CUDA backend has no convolution with a residual sum")
                       : 1;
}

const gpu__kind_t gpu__kind_conv = {.size = sizeof(conv_t),
                                    .reduced = 1,
                                    .low = 3,
                                    .nhwc = 1,
                                    .supports = conv_supports,
                                    .prepare = conv_prepare,
                                    .run = conv_run,
                                    .clear = conv_clear};
