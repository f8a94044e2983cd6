/* Elementwise ops (ReLU, addition, dropout, fake quantization), and REORDER. */
#include "ref/ref.h"

#include <string.h>

#include "backend/ct_dropout.h"
#include "backend/ct_fake_quant.h"

/* Computes dx = dy + dy2; if y is not NULL, dx is 0 where y is 0.  Shared by ReLU and addition. */
static void masked_sum(const ct_op_desc_t *d, const ct_op_args_t *a, const void *y)
{
  ct_dtype_t t = d->x.dtype;

  for (int64_t i = 0; i < ct_shape_count(&d->x); i++) {
    double g = ct__ref_get(t, a->dy, i);
    if (a->dy2) g += ct__ref_get(t, a->dy2, i);
    ct__ref_set(t, a->dx, i, y && ct__ref_get(t, y, i) <= 0 ? 0 : g);
  }
}

static void both_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
}

/* ---- ReLU ---- */

static int relu_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct_dtype_t t = d->x.dtype;

  for (int64_t i = 0; a->pass & CT_FWD && i < ct_shape_count(&d->x); i++)
    ct__ref_set(t, a->y, i, ct__ref_relu_of(ct__ref_get(t, a->x, i)));
  if (a->pass & CT_BWD_DATA) masked_sum(d, a, a->y);
  return CT_OK;
}

const ct__ref_kind_t ct__ref_relu = {.run = relu_run, .needs = both_needs, .reduced = 1};

/* ---- addition ---- */

static int point_add_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct_dtype_t t = d->x.dtype;

  for (int64_t i = 0; a->pass & CT_FWD && i < ct_shape_count(&d->x); i++) {
    double v = ct__ref_get(t, a->x, i) + ct__ref_get(t, a->x2, i);
    ct__ref_set(t, a->y, i, d->u.add.relu ? ct__ref_relu_of(v) : v);
  }
  if (a->pass & CT_BWD_DATA) masked_sum(d, a, d->u.add.relu ? a->y : NULL);
  return CT_OK;
}

const ct__ref_kind_t ct__ref_add = {.run = point_add_run, .needs = both_needs, .reduced = 1};

/* ---- dropout ---- */

static void drop_sample(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, const void *in,
                        void *out)
{
  int64_t samples = ct_op_dropped_samples(d), count = ct_shape_count(&d->x) / samples, inner;
  int64_t row = ct_shape_sample(&d->x);
  float factor[CT_DROPOUT_BLOCK];
  ct_dropout_t drop = ct_dropout_make(a->seed, a->step, d->u.dropout.layer, d->u.dropout.p);

  if (d->u.dropout.unscaled) drop.factor = 1;
  inner = d->x.dim[d->u.dropout.dim] / samples; /* consecutive elements of a sample */
  for (int i = d->u.dropout.dim + 1; i < d->x.ndim; i++)
    inner *= d->x.dim[i];
  for (int64_t i = 0; i < count; i++) {
    int64_t number = d->u.dropout.whole ? i / row : i;
    int k = (int)(number % CT_DROPOUT_BLOCK);
    int64_t position = d->u.dropout.whole > 1 ? 0 : a->first + n;
    if (d->u.dropout.whole > 1) number = k = 0;
    if (k == 0) ct_dropout_factors(&drop, position, number / CT_DROPOUT_BLOCK, factor);
    int64_t at = (i / inner * samples + n) * inner + i % inner;
    double v = ct__ref_get(d->x.dtype, in, at);
    ct__ref_set(d->x.dtype, out, at, factor[k] == 0 ? 0 : v * factor[k]);
  }
}

static void drop_batch(const ct_op_desc_t *d, const ct_op_args_t *a, const void *in, void *out)
{
  if (!d->training && out != in) memcpy(out, in, ct_shape_bytes(&d->x));
  for (int64_t n = 0; d->training && n < ct_op_dropped_samples(d); n++)
    drop_sample(d, a, n, in, out);
}

/* Runs dropout in either direction: the gradient gets the same mask and scale as the value. */
static int dropout_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) drop_batch(d, a, a->x, a->y);
  if (a->pass & CT_BWD_DATA) drop_batch(d, a, a->dy, a->dx);
  return CT_OK;
}

static void dropout_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_dropout = {.run = dropout_run, .needs = dropout_needs, .reduced = 1};

/* ---- fake quantization ---- */

static int fake_quant_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *x = a->x, *dy = a->dy;
  float *y = a->y, *dx = a->dx, *range = a->w[0], lo = 0, hi = 0;
  int64_t count = ct_shape_count(&d->x);

  for (int64_t i = 0; i < count && d->training && a->pass & CT_FWD; i++) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  if (!a->keep_running && !a->again) ct_fake_quant_follow(range, lo, hi);
  ct_quant_params_t qp = ct_quant_params_of(range[0], range[1]);
  int known = range[0] < range[1];
  for (int64_t i = 0; i < count && a->pass & CT_FWD; i++)
    y[i] = known ? ct_fake_quant(&qp, x[i]) : x[i];
  for (int64_t i = 0; i < count && a->pass & CT_BWD_DATA; i++)
    dx[i] = known ? ct_fake_quant_gradient(&qp, x[i], dy[i]) : dy[i];
  return CT_OK;
}

static void fake_quant_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->inplace_fwd = !ct_op_goes_back(d); /* backward needs x */
  info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_fake_quant = {.run = fake_quant_run, .needs = fake_quant_needs};

/* ---- reorder ---- */

/* Returns the offset of element i of the plain layout. */
static int64_t offset_of(const ct_shape_t *s, int64_t i)
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

static void point_move(const ct_shape_t *from, const void *in, const ct_shape_t *to, void *out)
{
  if (in == out) return; /* allowed if both are plain: nothing to do */
  memset(out, 0, ct_shape_bytes(to));
  for (int64_t i = 0; i < ct_shape_count(from); i++)
    ct__ref_set(to->dtype, out, offset_of(to, i), ct__ref_get(from->dtype, in, offset_of(from, i)));
}

/* Converts image bytes, in float32 like the sample conversion on the host. */
static void point_convert(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const uint8_t *x = a->x;
  int64_t channels = d->x.dim[1], space = ct_shape_sample(&d->x) / channels;

  memset(a->y, 0, ct_shape_bytes(&d->y));
  for (int64_t i = 0; i < ct_shape_count(&d->x); i++) {
    int64_t c = i / space % channels;
    float v = a->affine[c] * (float)x[offset_of(&d->x, i)] + a->affine[channels + c];
    ct__ref_set(d->y.dtype, a->y, offset_of(&d->y, i), v);
  }
}

static int reorder_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (d->x.dtype == CT_U8) {
    point_convert(d, a);
    return CT_OK;
  }
  if (a->pass & CT_FWD) point_move(&d->x, a->x, &d->y, a->y);
  if (a->pass & CT_BWD_DATA) point_move(&d->y, a->dy, &d->x, a->dx);
  return CT_OK;
}

static void reorder_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->inplace_fwd = info->inplace_bwd =
      d->x.layout == CT_PLAIN && d->y.layout == CT_PLAIN && d->x.dtype == d->y.dtype;
}

const ct__ref_kind_t ct__ref_reorder = {.run = reorder_run, .needs = reorder_needs, .reduced = 1};
