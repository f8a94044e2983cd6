/* Builds the cuDNN graphs of a convolution's passes. */
#include "cuda/conv/conv_plan.h"

/* w[out][in / groups][kernel...]; cuDNN infers the groups from x. */
static void filter_dims(const ct_op_desc_t *d, int64_t dim[CT_MAX_DIMS])
{
  dim[0] = d->y.dim[1];
  dim[1] = d->x.dim[1] / d->u.conv.groups;
  for (int i = 0; i < d->x.ndim - 2; i++)
    dim[2 + i] = d->u.conv.kernel[i];
}

int64_t gpu__conv_filter_count(const ct_op_desc_t *d)
{
  int64_t dim[CT_MAX_DIMS], n = 1;
  filter_dims(d, dim);
  for (int i = 0; i < d->x.ndim; i++)
    n *= dim[i];
  return n;
}

static gpu__dnn_window_t graph_window(const ct_op_desc_t *d)
{
  gpu__dnn_window_t w = {.dims = d->x.ndim - 2};
  for (int i = 0; i < w.dims; i++) {
    w.stride[i] = d->u.conv.stride[i];
    w.pad[i] = d->u.conv.pad[i];
    w.dilate[i] = d->u.conv.dilate[i];
  }
  return w;
}

int gpu__conv_graph(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused,
                    gpu__dnn_graph_t *out)
{
  gpu__dnn_graph_t *g = out;
  const ct_op_desc_t *d = p->d;
  gpu__dnn_window_t win = graph_window(d);
  int64_t filter[CT_MAX_DIMS];
  int rc, n = d->x.ndim;
  *g = (gpu__dnn_graph_t){.rc = 0};
  filter_dims(d, filter);
  gpu__dnn_desc_t x = gpu__dnn_tensor(g, GPU_CONV_X, d->x.dtype, n, d->x.dim);
  gpu__dnn_desc_t w = gpu__dnn_tensor(g, GPU_CONV_W, d->x.dtype, n, filter);
  gpu__dnn_desc_t y = gpu__dnn_tensor(g, GPU_CONV_Y, d->x.dtype, n, d->y.dim);
  gpu__dnn_desc_t sum = fused ? gpu__dnn_between(g, n, d->y.dim) : y;
  gpu__dnn_conv(g, p->pass, &win, x, w, sum);
  if (fused) {
    int64_t dim[CT_MAX_DIMS] = {1, d->y.dim[1], 1, 1, 1};
    gpu__dnn_add(g, sum, gpu__dnn_tensor(g, GPU_CONV_BIAS, d->x.dtype, n, dim), y);
  }
  rc = gpu__dnn_finish(g, t);
  if (rc) gpu__dnn_graph_clear(g);
  return rc;
}
