/** \file kern/body_loss.h  Inner loops of elementwise losses (MSE, L1, BCE, …).  Module-internal;
 * uses exp_of() of kern/body_act.h. */
#include "cpu/kern/vec.h"

/* Returns log(1 + e) for 0 <= e <= 1, computed as 2 * atanh(s) with s = e / (2 + e) <= 1/3, by the
 * series of atanh. */
INLINE vec_t log1p_of(vec_t e)
{
  vec_t s = e / (e + 2), z = s * s, p = splat(1.0f / 13);
  p = p * z + 1.0f / 11;
  p = p * z + 1.0f / 9;
  p = p * z + 1.0f / 7;
  p = p * z + 1.0f / 5;
  p = p * z + 1.0f / 3;
  return 2 * s * (p * z + 1);
}

/* Returns the sigmoid of x; e = exp(-|x|), which cannot overflow. */
INLINE vec_t sigmoid_from(vec_t x, vec_t e)
{
  return choose(x >= 0, splat(1), e) / (e + 1);
}

/* Adds the loss and absolute error of an output. */
INLINE void point_at(ct_loss_kind_t kind, vec_t x, vec_t t, vec_t *loss, vec_t *abs_error)
{
  vec_t d = abs_of(x - t), value = splat(NAN), e;
  switch (kind) {
  case CT_LOSS_MSE:
    value = d * d;
    break;
  case CT_LOSS_L1:
    value = d;
    break;
  case CT_LOSS_BCE:
    e = exp_of(-abs_of(x));
    value = keep(x > 0, x) - x * t + log1p_of(e);
    d = abs_of(sigmoid_from(x, e) - t);
    break;
  case CT_LOSS_CROSS_ENTROPY: /* not elementwise */
    break;
  }
  *loss += value;
  *abs_error += d;
}

INLINE vec_t slope_at(ct_loss_kind_t kind, vec_t x, vec_t t)
{
  vec_t d = x - t;
  switch (kind) {
  case CT_LOSS_MSE:
    return d + d;
  case CT_LOSS_L1:
    return choose(d > 0, splat(1), choose(d < 0, splat(-1), d)); /* NaN stays NaN */
  case CT_LOSS_BCE:
    return sigmoid_from(x, exp_of(-abs_of(x))) - t;
  case CT_LOSS_CROSS_ENTROPY:
    break;
  }
  return splat(NAN);
}

static void point_sums(ct_loss_kind_t kind, int64_t count, const float *x, const float *t,
                       float *sums)
{
  /* an output that, with target 0, adds nothing to either sum */
  const vec_t none = splat(kind == CT_LOSS_BCE ? -1000 : 0);
  int64_t end = whole(count);
  vec_t loss = {0}, abs_error = {0};

  for (int64_t i = 0; i < end; i += CPU__VW)
    point_at(kind, load(x + i, CPU__VW), load(t + i, CPU__VW), &loss, &abs_error);
  if (end < count) {
    int rest = (int)(count - end);
    point_at(kind, load_or(x + end, rest, none), load(t + end, rest), &loss, &abs_error);
  }
  sums[0] = sums[1] = 0;
  for (int j = 0; j < CPU__VW; j++) {
    sums[0] += loss[j];
    sums[1] += abs_error[j];
  }
}

static void point_slopes(ct_loss_kind_t kind, int64_t count, const float *x, const float *t,
                         float factor, float *dx)
{
  int64_t end = whole(count);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    store(dx + i, slope_at(kind, load(x + i, n), load(t + i, n)) * factor, n);
  }
}
