/** \file kern/body_loss.h  Inner loops of losses of outputs one by one (MSE, L1, BCE, …), with the
 * formulas of ref/ref_loss.c.  Module-internal; uses functions of kern/body_act.h and
 * kern/body_expr.h. */
#include "cpu/kern/vec.h"

/* Of some outputs: the loss, its slope, the absolute error of the prediction. */
typedef struct points {
  vec_t loss, slope, error;
} points_t;

INLINE vec_t sign_or_nan(vec_t d)
{
  return choose(d > 0, splat(1), choose(d < 0, splat(-1), d)); /* NaN stays NaN */
}

/* Returns log(1 + e^x); e = exp(-|x|). */
INLINE vec_t softplus_from(vec_t x, vec_t e)
{
  return keep(x > 0, x) + log1p_of(e);
}

INLINE points_t bce_of(const cpu__points_t *f, vec_t x, vec_t t, vec_t pos)
{
  vec_t e = exp_of(-abs_of(x)), p = sigmoid_from(x, e), rest = sigmoid_from(-x, e);
  points_t v = {softplus_from(x, e) - x * t, p - t, abs_of(p - t)};
  if (f->pos || f->gamma > 0) { /* p - t would lose digits that the focal factor needs */
    v.loss = pos * t * softplus_from(-x, e) + (1 - t) * softplus_from(x, e);
    v.slope = (1 - t) * p - pos * t * rest;
  }
  if (f->gamma > 0) {
    vec_t wrong = p * (1 - t) + rest * t, factor = exp_of(f->gamma * log_of(wrong));
    factor = keep(wrong > 0, factor);
    vec_t change = keep(wrong > 0, f->gamma * factor / wrong * (p * rest) * (1 - 2 * t));
    v.slope = v.slope * factor + v.loss * change;
    v.loss *= factor;
  }
  if (f->alpha > 0) {
    vec_t weight = f->alpha * t + (1 - f->alpha) * (1 - t);
    v.loss *= weight;
    v.slope *= weight;
  }
  return v;
}

INLINE points_t huber_of(vec_t d, float limit, float by)
{
  vec_t size = abs_of(d);
  mask_t near = size < limit;
  return (points_t){choose(near, 0.5f * d * d / by, (size - 0.5f * limit) * (limit / by)),
                    choose(near, d / by, sign_or_nan(d) * (limit / by)), size};
}

INLINE points_t kl_of(int logs, vec_t x, vec_t t)
{
  vec_t p = exp_whole(x), q = logs ? exp_whole(t) : t;
  if (logs) return (points_t){q * (t - x), -q, abs_of(p - q)};
  return (points_t){keep(t > 0, t * log_of(t)) - t * x, -t, abs_of(p - t)};
}

INLINE points_t poisson_of(int logs, vec_t x, vec_t t)
{
  vec_t p = logs ? exp_whole(x) : x, shifted = x + 1e-8f;
  if (logs) return (points_t){p - t * x, p - t, abs_of(p - t)};
  return (points_t){x - t * log_of(shifted), 1 - t / shifted, abs_of(x - t)};
}

INLINE points_t soft_margin_of(vec_t x, vec_t t)
{
  vec_t z = -t * x, e = exp_of(-abs_of(z));
  return (points_t){softplus_from(z, e), -t * sigmoid_from(z, e), abs_of(x - t)};
}

INLINE points_t hinge_of(float margin, vec_t x, vec_t t)
{
  vec_t below = margin - x;
  mask_t to_margin = ~(t == 1), to_zero = ~(t == -1);
  vec_t loss = keep(to_margin & ~(below < 0), below) + keep(to_zero, x);
  vec_t slope = keep(to_zero, splat(1)) - keep(to_margin & (below >= 0), splat(1));
  return (points_t){loss, slope, abs_of(x - t)};
}

INLINE points_t points_of(const cpu__points_t *f, vec_t x, vec_t t, vec_t pos)
{
  vec_t d = x - t;
  switch (f->kind) {
  case CT_LOSS_MSE:
    return (points_t){d * d, d + d, abs_of(d)};
  case CT_LOSS_L1:
    return (points_t){abs_of(d), sign_or_nan(d), abs_of(d)};
  case CT_LOSS_BCE:
    return bce_of(f, x, t, pos);
  case CT_LOSS_HUBER:
    return huber_of(d, f->param, 1);
  case CT_LOSS_SMOOTH_L1:
    return f->param > 0 ? huber_of(d, f->param, f->param)
                        : (points_t){abs_of(d), sign_or_nan(d), abs_of(d)};
  case CT_LOSS_KL:
    return kl_of(f->logs, x, t);
  case CT_LOSS_POISSON:
    return poisson_of(f->logs, x, t);
  case CT_LOSS_SOFT_MARGIN:
    return soft_margin_of(x, t);
  case CT_LOSS_HINGE_EMBEDDING:
    return hinge_of(f->param, x, t);
  case CT_LOSS_CROSS_ENTROPY: /* not output by output */
  case CT_LOSS_DICE:
  case CT_LOSS_SIGMOID_DICE:
  case CT_LOSS_RELATIVE_L2:
  case CT_LOSS_SOFT_CROSS_ENTROPY:
    break;
  }
  return (points_t){splat(NAN), splat(NAN), splat(NAN)};
}

/* Returns 1 for the first n lanes, 0 for others. */
INLINE vec_t lanes_of(int n)
{
  vec_t one = {0};
  for (int j = 0; j < CPU__VW; j++)
    one[j] = j < n;
  return one;
}

/* The lanes that count, and their weights: n of them, without targets that are missing. */
INLINE mask_t points_counted(const cpu__points_t *f, int64_t i, int n, vec_t t, vec_t *weight)
{
  vec_t lanes = n == CPU__VW ? splat(1) : lanes_of(n);
  mask_t counted = lanes > 0;
  *weight = f->place ? load(f->place + i, n) : lanes;
  return f->skips_nan ? counted & (t == t) : counted;
}

static void point_sums(const cpu__points_t *f, int64_t count, const float *x, const float *t,
                       float *sums)
{
  vec_t loss = {0}, error = {0}, weights = {0}, seen = {0}, weight;
  int64_t end = whole(count);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    vec_t pos = f->pos ? load(f->pos + i, n) : splat(1), target = load(t + i, n);
    mask_t counted = points_counted(f, i, n, target, &weight);
    points_t v = points_of(f, load(x + i, n), target, pos);
    loss += keep(counted, v.loss * weight);
    error += keep(counted, v.error);
    weights += keep(counted, weight);
    seen += keep(counted, splat(1));
  }
  sums[0] = lanes_sum(loss);
  sums[1] = lanes_sum(error);
  sums[2] = lanes_sum(weights);
  sums[3] = lanes_sum(seen);
}

static void point_slopes(const cpu__points_t *f, int64_t count, const float *x, const float *t,
                         float factor, float *dx)
{
  int64_t end = whole(count);
  vec_t weight;

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    vec_t pos = f->pos ? load(f->pos + i, n) : splat(1), target = load(t + i, n);
    mask_t counted = points_counted(f, i, n, target, &weight);
    points_t v = points_of(f, load(x + i, n), target, pos);
    store(dx + i, keep(counted, v.slope * weight * factor), n);
  }
}
