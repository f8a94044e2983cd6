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

int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate)
{
  int64_t extent = in + 2 * (int64_t)pad - (int64_t)dilate * (kernel - 1) - 1;

  /* C division rounds towards zero; a window that does not fit must not give one output */
  if (extent < 0) return -((-extent + stride - 1) / stride) + 1;
  return extent / stride + 1;
}
