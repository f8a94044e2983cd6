/* int8 pooling, channels last: maximum or integer sum of each window. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/int8/int8.h"

typedef struct pool {
  ct_op_t op;
  int64_t in[3], out[3], channels; /* depth, height, width; images have depth 1 */
  int kernel[3], stride[3], pad[3];
} pool_t;

typedef struct pool_window {
  int64_t from[3], to[3];
} window_t;

static int is_sized(const ct_op_desc_t *d)
{
  return !d->u.pool.global && !d->u.pool.adaptive;
}

static int pool_is_average(const ct_op_desc_t *d)
{
  return d->u.pool.average || !is_sized(d);
}

static int pool_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  const ct_quant_params_t *x = &d->q.x, *y = &d->q.y;
  const char *reason = NULL;
  if (!pool_is_average(d) && (d->y.dtype != CT_U8 || x->scale != y->scale || x->zero != y->zero))
    reason = "max pooling keeps scale and zero point";
  else if (d->u.pool.relu && x->zero)
    reason = "after a ReLU the minimum must be 0";
  if (reason) snprintf(why, 128, "%s", reason);
  return reason == NULL;
}

static int pool_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  pool_t *k = (pool_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int space = d->x.ndim - 2, skip = 3 - space;
  (void)like;
  k->channels = d->x.dim[1];
  for (int i = 0; i < 3; i++) {
    int from = i - skip;
    k->in[i] = from < 0 ? 1 : d->x.dim[2 + from];
    k->out[i] = from < 0 ? 1 : d->y.dim[2 + from];
    k->kernel[i] = from < 0 ? 1 : d->u.pool.kernel[from];
    k->stride[i] = from < 0 ? 1 : d->u.pool.stride[from];
    k->pad[i] = from < 0 ? 0 : d->u.pool.pad[from];
  }
  int one = k->out[0] * k->out[1] * k->out[2] == 1;
  info->y_layout = one ? CT_PLAIN : CT_NHWC;
  info->scratch = (size_t)op->dev->threads * (size_t)k->channels * sizeof(int32_t);
  return CT_OK;
}

/* Returns the part of output i's window that is inside the image. */
static window_t pool_window(const pool_t *k, int64_t i)
{
  window_t w;
  for (int j = 2; j >= 0; j--) {
    int64_t at = i % k->out[j], in = k->in[j], out = k->out[j];
    i /= out;
    if (is_sized(&k->op.desc)) {
      w.from[j] = at * k->stride[j] - k->pad[j];
      w.to[j] = w.from[j] + k->kernel[j];
      if (w.from[j] < 0) w.from[j] = 0;
      if (w.to[j] > in) w.to[j] = in;
    } else {
      w.from[j] = at * in / out;
      w.to[j] = ((at + 1) * in + out - 1) / out;
    }
  }
  return w;
}

static int64_t elements(const window_t *w)
{
  return (w->to[0] - w->from[0]) * (w->to[1] - w->from[1]) * (w->to[2] - w->from[2]);
}

static void largest(int64_t n, const uint8_t *restrict x, uint8_t *restrict y)
{
#pragma omp simd
  for (int64_t c = 0; c < n; c++)
    y[c] = x[c] > y[c] ? x[c] : y[c];
}

static void add_up(int64_t n, const uint8_t *restrict x, int32_t *restrict sum)
{
#pragma omp simd
  for (int64_t c = 0; c < n; c++)
    sum[c] += x[c];
}

typedef const uint8_t *pixel_t;

static pixel_t pixel(const pool_t *k, pixel_t image, int64_t z, int64_t row, int64_t column)
{
  return image + ((z * k->in[1] + row) * k->in[2] + column) * k->channels;
}

/* Reduces all pixels of a window into y (maximum) or into sum. */
static void pool_gather(const pool_t *k, const window_t *w, pixel_t image, uint8_t *y, int32_t *sum)
{
  for (int64_t z = w->from[0]; z < w->to[0]; z++)
    for (int64_t r = w->from[1]; r < w->to[1]; r++)
      for (int64_t c = w->from[2]; c < w->to[2]; c++)
        if (y)
          largest(k->channels, pixel(k, image, z, r, c), y);
        else
          add_up(k->channels, pixel(k, image, z, r, c), sum);
}

/* Computes the mean of a window from its sum.  With include_pad, padding counts as zeros. */
static void average(const pool_t *k, const window_t *w, const int32_t *sum, void *y, int64_t at)
{
  const ct_op_desc_t *d = &k->op.desc;
  int64_t inside = elements(w), all = inside;
  if (is_sized(d) && d->u.pool.include_pad)
    all = (int64_t)k->kernel[0] * k->kernel[1] * k->kernel[2];
  int bytes = d->y.dtype == CT_U8;
  float scale = d->q.x.scale / (float)all / (bytes ? d->q.y.scale : 1);
  int32_t zeros = (int32_t)inside * d->q.x.zero;
  float zero = bytes ? (float)d->q.y.zero : 0;
  for (int64_t c = 0; c < k->channels; c++) {
    float v = (float)(sum[c] - zeros) * scale + zero;
    if (bytes)
      ((uint8_t *)y)[at + c] = cpu__int8_cut(v);
    else
      ((float *)y)[at + c] = v;
  }
}

static void pool_one(const pool_t *k, const ct_op_args_t *a, int64_t image, int64_t i, int32_t *sum)
{
  int64_t inputs = k->in[0] * k->in[1] * k->in[2], outputs = k->out[0] * k->out[1] * k->out[2];
  const uint8_t *x = (const uint8_t *)a->x + image * inputs * k->channels;
  int64_t at = (image * outputs + i) * k->channels;
  window_t w = pool_window(k, i);
  if (!pool_is_average(&k->op.desc)) {
    uint8_t *y = (uint8_t *)a->y + at;
    memset(y, 0, (size_t)k->channels);
    pool_gather(k, &w, x, y, NULL);
    return;
  }
  memset(sum, 0, (size_t)k->channels * sizeof *sum);
  pool_gather(k, &w, x, NULL, sum);
  average(k, &w, sum, a->y, at);
}

static int pool_run(ct_op_t *op, const ct_op_args_t *a)
{
  const pool_t *k = (const pool_t *)op;
  int64_t outputs = k->out[0] * k->out[1] * k->out[2], all = op->desc.x.dim[0] * outputs;
#pragma omp parallel if (cpu__is_parallel(&op->desc.x))
  {
    int32_t *sum = (int32_t *)a->scratch + omp_get_thread_num() * k->channels;
#pragma omp for
    for (int64_t i = 0; i < all; i++)
      pool_one(k, a, i / outputs, i % outputs, sum);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_pool = {.size = sizeof(pool_t),
                                       .supports = pool_supports,
                                       .wants = cpu__int8_wants,
                                       .prepare = pool_prepare,
                                       .run = pool_run};
