/* Pooling, with the semantics of torch.nn.MaxPool2d, AvgPool2d (floor mode) and
 * AdaptiveAvgPool2d(1). */
#include "ref/ref.h"

#include <math.h>

/* The part of one output's window that lies inside the image. */
typedef struct window {
  int64_t row, row_end, col, col_end;
} window_t;

static window_t window(const ct_op_desc_t *d, int64_t i)
{
  const int *kernel = d->u.pool.kernel, *stride = d->u.pool.stride, *pad = d->u.pool.pad;
  int64_t height = d->x.dim[2], width = d->x.dim[3];

  if (d->u.pool.global) return (window_t){0, height, 0, width};
  window_t w;
  w.row = i / d->y.dim[3] * stride[0] - pad[0];
  w.col = i % d->y.dim[3] * stride[1] - pad[1];
  w.row_end = w.row + kernel[0] < height ? w.row + kernel[0] : height;
  w.col_end = w.col + kernel[1] < width ? w.col + kernel[1] : width;
  if (w.row < 0) w.row = 0;
  if (w.col < 0) w.col = 0;
  return w;
}

static int is_average(const ct_op_desc_t *d)
{
  return d->u.pool.global || d->u.pool.average;
}

static int keeps_origins(const ct_op_desc_t *d)
{
  return !is_average(d) && (d->passes & CT_BWD_DATA);
}

/* The first largest element of the window, in scan order; NaN counts as largest, as in PyTorch. */
static int64_t find_max(const ct_op_desc_t *d, const float *x, const window_t *w)
{
  int64_t best = w->row * d->x.dim[3] + w->col;

  for (int64_t r = w->row; r < w->row_end; r++) {
    for (int64_t c = w->col; c < w->col_end; c++) {
      int64_t i = r * d->x.dim[3] + c;
      if (x[i] > x[best] || isnan(x[i])) best = i;
    }
  }
  return best;
}

/* saved: for each output where its maximum came from, or -1 where the ReLU cut it off */
static void max_forward(const ct_op_desc_t *d, const float *x, float *y, int32_t *from)
{
  for (int64_t i = 0; i < d->y.dim[2] * d->y.dim[3]; i++) {
    window_t w = window(d, i);
    int64_t best = find_max(d, x, &w);
    int cut = d->u.pool.relu && x[best] <= 0;
    y[i] = cut ? 0 : x[best];
    if (from) from[i] = cut ? -1 : (int32_t)best;
  }
}

static void max_backward(const ct_op_desc_t *d, const int32_t *from, const float *dy, double *dx)
{
  for (int64_t i = 0; i < d->y.dim[2] * d->y.dim[3]; i++) {
    if (from[i] >= 0) dx[from[i]] += dy[i];
  }
}

static double divisor(const ct_op_desc_t *d, const window_t *w)
{
  if (!d->u.pool.global && d->u.pool.include_pad)
    return (double)d->u.pool.kernel[0] * d->u.pool.kernel[1];
  return (double)((w->row_end - w->row) * (w->col_end - w->col));
}

static void average_forward(const ct_op_desc_t *d, const float *x, float *y)
{
  for (int64_t i = 0; i < d->y.dim[2] * d->y.dim[3]; i++) {
    window_t w = window(d, i);
    double sum = 0;
    for (int64_t r = w.row; r < w.row_end; r++) {
      for (int64_t c = w.col; c < w.col_end; c++)
        sum += x[r * d->x.dim[3] + c];
    }
    y[i] = (float)(sum / divisor(d, &w));
  }
}

static void average_backward(const ct_op_desc_t *d, const float *dy, double *dx)
{
  for (int64_t i = 0; i < d->y.dim[2] * d->y.dim[3]; i++) {
    window_t w = window(d, i);
    double share = dy[i] / divisor(d, &w);
    for (int64_t r = w.row; r < w.row_end; r++) {
      for (int64_t c = w.col; c < w.col_end; c++)
        dx[r * d->x.dim[3] + c] += share;
    }
  }
}

static int run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t in = d->x.dim[2] * d->x.dim[3], out = d->y.dim[2] * d->y.dim[3];

  for (int64_t plane = 0; plane < d->x.dim[0] * d->x.dim[1]; plane++) {
    int32_t *from = keeps_origins(d) ? (int32_t *)a->saved + plane * out : NULL;
    if (a->pass & CT_FWD) {
      const float *x = (const float *)a->x + plane * in;
      float *y = (float *)a->y + plane * out;
      if (is_average(d)) {
        average_forward(d, x, y);
      } else {
        max_forward(d, x, y, from);
      }
    }
    if (a->pass & CT_BWD_DATA) {
      const float *dy = (const float *)a->dy + plane * out;
      float *dx = (float *)a->dx + plane * in;
      double *sum = a->scratch;
      for (int64_t i = 0; i < in; i++)
        sum[i] = 0;
      if (is_average(d)) {
        average_backward(d, dy, sum);
      } else {
        max_backward(d, from, dy, sum);
      }
      for (int64_t i = 0; i < in; i++)
        dx[i] = (float)sum[i];
    }
  }
  return CT_OK;
}

static const char *check(const ct_op_desc_t *d)
{
  if (d->x.ndim != 4 || d->y.ndim != 4) return "pooling takes N x C x H x W";
  if (d->x.dim[0] != d->y.dim[0] || d->x.dim[1] != d->y.dim[1])
    return "input and output differ in batch size or channels";
  if (d->u.pool.relu && is_average(d)) return "only maximum pooling has a ReLU";
  for (int i = 0; i < 2; i++) {
    int kernel = d->u.pool.kernel[i], stride = d->u.pool.stride[i], pad = d->u.pool.pad[i];
    int64_t out = d->u.pool.global ? 1 : 0;
    if (!d->u.pool.global) {
      if (kernel < 1 || stride < 1) return "kernel and stride must be at least 1";
      if (pad < 0 || pad > kernel / 2) return "padding must be 0 to half of the kernel";
      out = ct_op_window_out(d->x.dim[2 + i], kernel, stride, pad, 1);
    }
    if (d->y.dim[2 + i] != out) return "the output's height or width is not what the window gives";
  }
  return NULL;
}

static void needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  if (!(d->passes & CT_BWD_DATA)) return;
  info->scratch = (size_t)(d->x.dim[2] * d->x.dim[3]) * sizeof(double);
  if (keeps_origins(d)) info->saved = (size_t)ct_shape_count(&d->y) * sizeof(int32_t);
}

const ct__ref_kind_t ct__ref_pool = {check, needs, run};
