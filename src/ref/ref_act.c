/* Activations other than ReLU, as in torch.nn.functional; and concatenation. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

static const double root_half = 0.70710678118654752440, root_2pi = 2.50662827463100050242;

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double value(const ct_op_desc_t *d, double x)
{
  switch (d->u.act.kind) {
  case CT_ACT_LEAKY_RELU:
    return x > 0 ? x : d->u.act.alpha * x;
  case CT_ACT_RELU6:
    return x < 0 ? 0 : x > 6 ? 6 : x; /* NaN stays NaN */
  case CT_ACT_GELU:
    return 0.5 * x * (1 + erf(x * root_half));
  case CT_ACT_SIGMOID:
    return sigmoid(x);
  case CT_ACT_TANH:
    return d->u.act.alpha * tanh(x);
  case CT_ACT_SILU:
    return x * sigmoid(x);
  }
  return NAN;
}

/* Returns the derivative; v is x or y, as CT_ACT_LIST requires. */
static double slope(const ct_op_desc_t *d, double v)
{
  switch (d->u.act.kind) {
  case CT_ACT_LEAKY_RELU:
    return v > 0 ? 1 : d->u.act.alpha;
  case CT_ACT_RELU6:
    return v > 0 && v < 6 ? 1 : 0;
  case CT_ACT_GELU:
    return 0.5 * (1 + erf(v * root_half)) + v * exp(-0.5 * v * v) / root_2pi;
  case CT_ACT_SIGMOID:
    return v * (1 - v);
  case CT_ACT_TANH:
    return d->u.act.alpha - v * v / d->u.act.alpha;
  case CT_ACT_SILU:
    return sigmoid(v) * (1 + v * (1 - sigmoid(v)));
  }
  return NAN;
}

static int act_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct_dtype_t t = d->x.dtype;
  const void *of = ct_op_uses(d) & CT_USES_X ? a->x : a->y;

  for (int64_t i = 0; a->pass & CT_FWD && i < ct_shape_count(&d->x); i++)
    ct__ref_set(t, a->y, i, value(d, ct__ref_get(t, a->x, i)));
  for (int64_t i = 0; a->pass & CT_BWD_DATA && i < ct_shape_count(&d->x); i++) {
    double g = ct__ref_get(t, a->dy, i);
    if (a->dy2) g += ct__ref_get(t, a->dy2, i);
    ct__ref_set(t, a->dx, i, g * slope(d, ct__ref_get(t, of, i)));
  }
  return CT_OK;
}

static void act_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_act = {.run = act_run, .needs = act_needs, .reduced = 1};

/* ---- concatenation ---- */

/* Of a row: the elements of all inputs, and from row to row in x and dx, y and dy, which may be
 * parts of larger tensors. */
typedef struct rows {
  int64_t all, x_step, y_step;
} rows_t;

/* Writes the gradient of one input: `count` elements from `first` on of each row of dy; the rows of
 * dx are `step` elements apart. */
static void part_gradient(const ct_op_desc_t *d, const ct_op_args_t *a, const rows_t *r,
                          int64_t first, int64_t count, void *dx, int64_t step)
{
  ct_dtype_t t = d->y.dtype;

  for (int64_t n = 0; n < ct_shape_count(&d->y) / r->all; n++) {
    for (int64_t i = 0; i < count; i++) {
      int64_t at = n * r->y_step + first + i;
      double g = ct__ref_get(t, a->dy, at);
      if (a->dy2) g += ct__ref_get(t, a->dy2, at);
      ct__ref_set(t, dx, n * step + i, g);
    }
  }
}

static int concat_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct_shape_t x = ct_op_around_x(d), y = ct_op_around_y(d);
  const rows_t r = {ct_op_concat_row(d, &d->y), ct_op_concat_row(d, &x), ct_op_concat_row(d, &y)};
  int64_t one = ct_op_concat_row(d, &d->x), two = r.all - one;
  size_t size = ct_dtype_size(d->x.dtype);

  for (int64_t n = 0; a->pass & CT_FWD && n < ct_shape_count(&d->y) / r.all; n++) {
    char *to = (char *)a->y + (size_t)(n * r.y_step) * size;
    if (!d->u.concat.placed)
      memcpy(to, (const char *)a->x + (size_t)(n * r.x_step) * size, (size_t)one * size);
    memcpy(to + (size_t)one * size, (const char *)a->x2 + (size_t)(n * two) * size,
           (size_t)two * size);
  }
  if (a->pass & CT_BWD_DATA && a->dx) part_gradient(d, a, &r, 0, one, a->dx, r.x_step);
  if (a->pass & CT_BWD_DATA && a->dx2) part_gradient(d, a, &r, one, two, a->dx2, two);
  return CT_OK;
}

static void concat_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->takes_dy2 = 1;
  info->inplace_bwd = d->u.concat.placed;
}

const ct__ref_kind_t ct__ref_concat = {.run = concat_run, .needs = concat_needs, .reduced = 1};
