/* Elementwise ops: ReLU, addition, dropout; and the change of layout. */
#include "ref/ref.h"

#include <string.h>

#include "backend/ct_dropout.h"

static const char *check_same(const ct_op_desc_t *d)
{
  return ct_shape_same(&d->x, &d->y) ? NULL : "input and output differ in shape";
}

static int goes_back(const ct_op_desc_t *d)
{
  return (d->passes & CT_BWD_DATA) != 0;
}

/* dx = dy + dy2, and with y only where y was not cut off; what the ReLU and the addition share. */
static void masked_sum(int64_t count, const float *y, const float *dy, const float *dy2, float *dx)
{
  for (int64_t i = 0; i < count; i++) {
    float g = dy2 ? dy[i] + dy2[i] : dy[i];
    dx[i] = y && y[i] <= 0 ? 0 : g;
  }
}

/* ---- ReLU ---- */

static int relu_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t count = ct_shape_count(&d->x);
  const float *x = a->x;
  float *y = a->y;

  if (a->pass & CT_FWD) {
    for (int64_t i = 0; i < count; i++)
      y[i] = (float)ct__ref_relu_of(x[i]);
  }
  if (a->pass & CT_BWD_DATA) masked_sum(count, y, a->dy, a->dy2, a->dx);
  return CT_OK;
}

static void relu_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->bwd_uses = goes_back(d) ? CT_USES_Y : 0;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_relu = {check_same, relu_needs, relu_run};

/* ---- addition ---- */

static int add_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t count = ct_shape_count(&d->x);
  const float *x = a->x, *x2 = a->x2;
  float *y = a->y;

  if (a->pass & CT_FWD) {
    for (int64_t i = 0; i < count; i++) {
      double v = (double)x[i] + x2[i];
      y[i] = (float)(d->u.add.relu ? ct__ref_relu_of(v) : v);
    }
  }
  if (a->pass & CT_BWD_DATA) masked_sum(count, d->u.add.relu ? y : NULL, a->dy, a->dy2, a->dx);
  return CT_OK;
}

static void add_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->bwd_uses = goes_back(d) && d->u.add.relu ? CT_USES_Y : 0;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_add = {check_same, add_needs, add_run};

/* ---- dropout ---- */

static void drop_sample(const ct_dropout_t *drop, int64_t position, int64_t count, const float *in,
                        float *out)
{
  float factor[CT_DROPOUT_BLOCK];

  for (int64_t i = 0; i < count; i++) {
    int k = (int)(i % CT_DROPOUT_BLOCK);
    if (k == 0) ct_dropout_factors(drop, position, i / CT_DROPOUT_BLOCK, factor);
    out[i] = factor[k] == 0 ? 0 : in[i] * factor[k];
  }
}

static void drop_batch(const ct_op_desc_t *d, const ct_op_args_t *a, const float *in, float *out)
{
  int64_t count = ct_shape_sample(&d->x);
  ct_dropout_t drop = ct_dropout_make(a->seed, a->step, d->u.dropout.layer, d->u.dropout.p);

  for (int64_t n = 0; n < d->x.dim[0]; n++) {
    if (d->training) {
      drop_sample(&drop, a->first + n, count, in + n * count, out + n * count);
    } else if (out != in) {
      memcpy(out + n * count, in + n * count, (size_t)count * sizeof *out);
    }
  }
}

/* The gradient is dropped and scaled like the value. */
static int dropout_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) drop_batch(d, a, a->x, a->y);
  if (a->pass & CT_BWD_DATA) drop_batch(d, a, a->dy, a->dx);
  return CT_OK;
}

static const char *dropout_check(const ct_op_desc_t *d)
{
  if (!(d->u.dropout.p >= 0 && d->u.dropout.p <= 1)) return "p is not in 0 to 1";
  return check_same(d);
}

static void dropout_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_dropout = {dropout_check, dropout_needs, dropout_run};

/* ---- reorder ---- */

/* Where element i of the plain layout lies. */
static int64_t place(const ct_shape_t *s, int64_t i)
{
  int64_t block = s->layout == CT_C8 ? 8 : 16;
  int64_t sample = ct_shape_sample(s), channels = s->ndim > 1 ? s->dim[1] : 1;
  int64_t space = sample / channels, blocks = (channels + block - 1) / block;
  int64_t n = i / sample, c = i % sample / space, at = i % space;

  switch (s->layout) {
  case CT_PLAIN:
    break;
  case CT_C8:
  case CT_C16:
    return ((n * blocks + c / block) * space + at) * block + c % block;
  case CT_NHWC:
    return (n * space + at) * channels + c;
  }
  return i;
}

static void move(const ct_shape_t *from, const float *in, const ct_shape_t *to, float *out)
{
  if (in == out) return; /* allowed where both are plain: then nothing moves */
  memset(out, 0, ct_shape_bytes(to));
  for (int64_t i = 0; i < ct_shape_count(from); i++)
    out[place(to, i)] = in[place(from, i)];
}

static int reorder_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) move(&d->x, a->x, &d->y, a->y);
  if (a->pass & CT_BWD_DATA) move(&d->y, a->dy, &d->x, a->dx);
  return CT_OK;
}

static const char *reorder_check(const ct_op_desc_t *d)
{
  if (ct_shape_count(&d->x) != ct_shape_count(&d->y))
    return "input and output differ in their number of elements";
  return d->x.dim[0] == d->y.dim[0] ? NULL : "input and output differ in batch size";
}

static void reorder_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->inplace_fwd = info->inplace_bwd = d->x.layout == CT_PLAIN && d->y.layout == CT_PLAIN;
}

const ct__ref_kind_t ct__ref_reorder = {reorder_check, reorder_needs, reorder_run};
