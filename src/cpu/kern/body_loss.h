/** \file kern/body_loss.h  Inner loops of the losses that are a mean over outputs, each with its
 * target.  Module-internal; uses exp_of() of kern/body_softmax.h. */
#include "cpu/kern/vec.h"

/* log(1 + e) for 0 <= e <= 1, as 2 atanh(s) with s = e / (2 + e) <= 1/3, by its series. */
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

/* From e = exp(-|x|), which cannot overflow. */
INLINE vec_t sigmoid_from(vec_t x, vec_t e)
{
  return choose(x >= 0, splat(1), e) / (e + 1);
}

INLINE void point_at(int kind, vec_t x, vec_t t, vec_t *loss, vec_t *abs_error)
{
  if (kind == CT_LOSS_BCE) {
    vec_t e = exp_of(-abs_of(x));
    *loss += keep(x > 0, x) - x * t + log1p_of(e);
    *abs_error += abs_of(sigmoid_from(x, e) - t);
  } else {
    vec_t d = abs_of(x - t);
    *loss += kind == CT_LOSS_MSE ? d * d : d;
    *abs_error += d;
  }
}

INLINE vec_t slope_at(int kind, vec_t x, vec_t t)
{
  if (kind == CT_LOSS_BCE) return sigmoid_from(x, exp_of(-abs_of(x))) - t;
  vec_t d = x - t;
  if (kind == CT_LOSS_MSE) return d + d;
  return choose(d > 0, splat(1), choose(d < 0, splat(-1), d)); /* NaN stays NaN */
}

static void point_sums(int kind, int64_t count, const float *x, const float *t, float *sums)
{
  /* an output with target 0 that adds nothing to either sum */
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

static void point_slopes(int kind, int64_t count, const float *x, const float *t, float factor,
                         float *dx)
{
  int64_t end = whole(count);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    store(dx + i, slope_at(kind, load(x + i, n), load(t + i, n)) * factor, n);
  }
}
