/* Ops with windows: an op seen as another one, and the geometry of windows. */
#include <string.h>

#include "backend/ct_op.h"

int ct_op_turned_pass(int pass)
{
  return (pass & CT_FWD ? CT_BWD_DATA : 0) | (pass & CT_BWD_DATA ? CT_FWD : 0) |
         (pass & CT_BWD_PARAM);
}

ct_op_desc_t ct_op_turned(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = *d;
  conv.kind = CT_OP_CONV;
  conv.passes = ct_op_turned_pass(d->passes);
  conv.x = d->y;
  conv.y = d->x;
  conv.u.conv.bias = 0;
  return conv;
}

ct_op_desc_t ct_op_with_params(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = *d;
  conv.kind = CT_OP_CONV;
  memset(&conv.x2, 0, sizeof conv.x2);
  memset(&conv.x3, 0, sizeof conv.x3);
  if (d->passes & CT_BWD_DATA) conv.passes |= CT_BWD_PARAM;
  return conv;
}

int ct_op_takes_layout(const ct_op_desc_t *d, int k)
{
  const ct_shape_t *s[] = {&d->x, &d->x2, &d->x3};
  if (k > 0 && d->kind == CT_OP_CONVOLVE) return 0; /* a weight, not an image */
  return s[k]->ndim == d->y.ndim;
}

/* ---- checks ---- */

const char *ct_conv_check(const ct_op_desc_t *d)
{
  int groups = d->u.conv.groups;

  if (d->x.ndim < 4 || d->y.ndim != d->x.ndim)
    return "a convolution takes N x C x H x W or N x C x D x H x W";
  if (d->x.dim[0] != d->y.dim[0]) return "input and output differ in batch size";
  if (d->u.conv.add && d->passes != CT_FWD)
    return "a convolution with a residual sum is for inference only";
  if (groups < 1 || d->x.dim[1] % groups || d->y.dim[1] % groups)
    return "the channels are not a multiple of the groups";
  for (int i = 0; i < d->x.ndim - 2; i++) {
    int kernel = d->u.conv.kernel[i], stride = d->u.conv.stride[i];
    int pad = d->u.conv.pad[i], dilate = d->u.conv.dilate[i];
    if (kernel < 1 || stride < 1 || pad < 0 || dilate < 1)
      return "kernel, stride and dilation must be at least 1, padding at least 0";
    if (d->y.dim[2 + i] != ct_op_window_out(d->x.dim[2 + i], kernel, stride, pad, dilate))
      return "the output's size is not what the window gives";
  }
  return NULL;
}

/* Checks dim i of a window; *window is multiplied by its elements. */
static const char *check_pool_dim(const ct_op_desc_t *d, int i, double *window)
{
  int kernel = d->u.pool.kernel[i], stride = d->u.pool.stride[i], pad = d->u.pool.pad[i];
  int gap = d->u.pool.gap[i];

  if (kernel < 1 || stride < 1) return "kernel and stride must be at least 1";
  if (pad < 0 || pad > kernel / 2) return "padding must be 0 to half of the kernel";
  if (gap < 0 || (gap && d->u.pool.average)) return "only maximum pooling has gaps, of at least 0";
  *window *= kernel;
  int64_t out = ct_op_pool_out(d->x.dim[2 + i], kernel, stride, pad, 1 + gap, d->u.pool.ceil);
  return d->y.dim[2 + i] == out ? NULL : "the output's size is not what the window gives";
}

const char *ct_pool_check(const ct_op_desc_t *d)
{
  int sized = ct_op_has_kernel(d);
  double window = 1;
  const char *reason = NULL;
  if (d->x.ndim < 4 || d->y.ndim != d->x.ndim)
    return "pooling takes N x C x H x W or N x C x D x H x W";
  if (d->x.dim[0] != d->y.dim[0] || d->x.dim[1] != d->y.dim[1])
    return "input and output differ in batch size or channels";
  if (d->u.pool.relu && (d->u.pool.average || !sized)) return "only maximum pooling has a ReLU";
  if (d->u.pool.divisor < 0 || (d->u.pool.divisor && (!d->u.pool.average || !sized)))
    return "only an average over windows has a divisor, of at least 1";
  for (int i = 0; i < d->x.ndim - 2 && !reason; i++) {
    if (sized)
      reason = check_pool_dim(d, i, &window);
    else if (d->u.pool.global && d->y.dim[2 + i] != 1)
      reason = "the output's size is not what the window gives";
  }
  if (window > INT32_MAX) return "a window has more than 2147483647 elements";
  return reason;
}

/* Checks what the parts of a CONV_POOL follow from. */
static const char *check_attributes(const ct_op_desc_t *d)
{
  const ct_op_conv_pool_t *o = &d->u.conv_pool;
  if (d->x.ndim < 4 || d->x.ndim > 5 || d->y.ndim != d->x.ndim)
    return "a convolution takes N x C x H x W or N x C x D x H x W";
  for (int i = 0; i < d->x.ndim - 2; i++)
    if (o->conv.stride[i] < 1) return "the stride of the convolution must be at least 1";
  if (o->conv.add || o->conv.relu & ~1) return "the convolution adds nothing, and has a plain ReLU";
  if (o->conv.relu && (o->act || o->pool.relu)) return "there are two activations";
  if (o->act < 0 || o->act > CT_ACT_COUNT) return "unknown activation";
  int alpha = o->act ? ct_act_facts_of((ct_act_t)(o->act - 1))->alpha : CT_ALPHA_NONE;
  if (alpha != CT_ALPHA_NONE && !(alpha == CT_ALPHA_SLOPE ? o->alpha >= 0 : o->alpha > 0))
    return "the activation's slope or factor is out of range";
  if (o->pool.global || o->pool.adaptive || o->pool.pad[0])
    return "the pooling needs a kernel, without padding along the slabs";
  return o->rows < 1 || o->rows > d->y.dim[2] ? "a slab has 1 to all rows" : NULL;
}

const char *ct_conv_pool_check(const ct_op_desc_t *d)
{
  const ct_op_pool_t *o = &d->u.conv_pool.pool;
  const char *reason = check_attributes(d);
  if (reason) return reason;
  const ct_op_desc_t conv = ct_conv_pool_part(d, CT_OP_CONV);
  const ct_op_desc_t pool = ct_conv_pool_part(d, CT_OP_POOL);
  for (int i = 2; i < pool.x.ndim; i++)
    if (pool.x.dim[i] < 1) return "the convolution has no output";
  if (!reason) reason = ct_conv_check(&conv);
  if (!reason) reason = ct_pool_check(&pool);
  if (reason) return reason;
  int64_t last = (d->y.dim[2] - 1) * o->stride[0] + (int64_t)(o->kernel[0] - 1) * (o->gap[0] + 1);
  return last < pool.x.dim[2] ? NULL : "a window ends outside of the convolution's output";
}

/* ---- sequences ---- */

/* Inserts a first dim into the values of a window. */
static void heighten_window(int v[3], int first)
{
  v[1] = v[0];
  v[0] = first;
}

static void heighten_shape(ct_shape_t *s)
{
  if (s->ndim != 3) return;
  s->dim[3] = s->dim[2];
  s->dim[2] = 1;
  s->ndim = 4;
}

void ct_op_heighten(ct_op_desc_t *d)
{
  heighten_shape(&d->x);
  heighten_shape(&d->y);
  heighten_shape(&d->x2);
  if (d->kind == CT_OP_CONV || d->kind == CT_OP_CONVT || d->kind == CT_OP_CONVOLVE) {
    heighten_window(d->u.conv.kernel, 1);
    heighten_window(d->u.conv.stride, 1);
    heighten_window(d->u.conv.pad, 0);
    heighten_window(d->u.conv.dilate, 1);
  }
  if (d->kind == CT_OP_POOL && ct_op_has_kernel(d)) {
    heighten_window(d->u.pool.kernel, 1);
    heighten_window(d->u.pool.stride, 1);
    heighten_window(d->u.pool.pad, 0);
    heighten_window(d->u.pool.gap, 0);
  }
  if (d->kind == CT_OP_UPSAMPLE) {
    d->u.upsample.scale[1] = d->u.upsample.scale[0];
    d->u.upsample.scale[0] = 0;
  }
}

ct_resize_dim_t ct_op_resize_dim(const ct_op_desc_t *d, int i)
{
  return (ct_resize_dim_t){.in = d->x.dim[2 + i],
                           .out = d->y.dim[2 + i],
                           .mode = d->u.upsample.mode,
                           .corners = d->u.upsample.align_corners,
                           .scale = d->u.upsample.scale[i]};
}

int64_t ct_op_pool_out(int64_t in, int kernel, int stride, int pad, int dilate, int ceil)
{
  int64_t out = ct_op_window_out(in + (ceil ? stride - 1 : 0), kernel, stride, pad, dilate);
  return ceil && (out - 1) * stride >= in + pad ? out - 1 : out;
}
