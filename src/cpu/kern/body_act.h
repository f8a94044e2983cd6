/** \file kern/body_act.h  The exponential, and inner loops of activations other than ReLU.
 * Module-internal. */
#include "cpu/kern/vec.h"

/* Returns exp(x) for x <= 0 with an error of about one ulp; 0 below -87.  Computed as 2^k * e^r
 * with |r| <= ln 2 / 2; the polynomial for e^r and the split of ln 2 come from Cephes' expf (S. L.
 * Moshier). */
INLINE vec_t exp_of(vec_t x)
{
  const float magic = 0x1.8p23f; /* adding a number of this size rounds to an integer */
  vec_t rounded = x * 1.44269504088896341f + magic, k = rounded - magic;
  vec_t r = x - k * 0.693359375f + k * 2.12194440e-4f;
  vec_t p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1;
  mask_t exponent = ((mask_t)rounded - (mask_t)splat(magic) + 127) << 23;
  return keep(~(x < -87), p * (vec_t)exponent);
}

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

INLINE vec_t magnitude(vec_t x)
{
  return (vec_t)((mask_t)x & 0x7fffffff);
}

/* Returns |a| with the sign of b. */
INLINE vec_t with_sign(vec_t a, vec_t b)
{
  return (vec_t)((mask_t)a | ((mask_t)b & ~0x7fffffff));
}

/* Returns the sigmoid, computed from exp(-|x|), which cannot overflow.  NaN stays NaN. */
INLINE vec_t sigmoid_of(vec_t x)
{
  vec_t e = exp_of(-magnitude(x));
  return choose(x < 0, e, splat(1)) / (1 + e);
}

/* Returns tanh(x).  Near 0, where 1 - e^(-2x) would lose digits, it uses an odd polynomial. */
INLINE vec_t tanh_of(vec_t x)
{
  vec_t a = magnitude(x), e = exp_of(-2 * a), s = x * x;
  vec_t series = 1 + s * (-1.f / 3 + s * (2.f / 15 - s * (17.f / 315)));
  return choose(a < 0.125f, x * series, with_sign((1 - e) / (1 + e), x));
}

/* Returns the normal distribution function with an error of 1.5e-7, computed from erf as in
 * Abramowitz and Stegun 7.1.26; *density becomes e^(-x^2 / 2). */
INLINE vec_t normal_of(vec_t x, vec_t *density)
{
  vec_t a = magnitude(x) * 0.70710678118654752f, t = 1 / (1 + 0.3275911f * a);
  vec_t p = splat(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  *density = exp_of(-(a * a));
  vec_t tail = 0.5f * p * t * *density;
  return choose(x < 0, tail, 1 - tail);
}

INLINE vec_t act_value(ct_act_t kind, float alpha, vec_t x)
{
  vec_t density;
  switch (kind) {
  case CT_ACT_LEAKY_RELU:
    return choose(x > 0, x, x * alpha);
  case CT_ACT_RELU6:
    return choose(x > 6, splat(6), keep(~(x < 0), x));
  case CT_ACT_GELU:
    return x * normal_of(x, &density);
  case CT_ACT_SIGMOID:
    return sigmoid_of(x);
  case CT_ACT_TANH:
    return alpha * tanh_of(x);
  case CT_ACT_SILU:
    return x * sigmoid_of(x);
  }
  return splat(NAN);
}

/* Returns the derivative of an activation; v is x or y, as CT_ACT_LIST requires. */
INLINE vec_t act_slope(ct_act_t kind, float alpha, vec_t v)
{
  vec_t density, s;
  switch (kind) {
  case CT_ACT_LEAKY_RELU:
    return choose(v > 0, splat(1), splat(alpha));
  case CT_ACT_RELU6:
    return keep((v > 0) & (v < 6), splat(1));
  case CT_ACT_GELU:
    s = normal_of(v, &density);
    return s + v * density * 0.39894228040143268f;
  case CT_ACT_SIGMOID:
    return v * (1 - v);
  case CT_ACT_TANH:
    return alpha - v * v / alpha;
  case CT_ACT_SILU:
    s = sigmoid_of(v);
    return s * (1 + v * (1 - s));
  }
  return splat(NAN);
}

INLINE void act_step(ct_act_t kind, float alpha, const void *x, void *y, int64_t i, int n)
{
  put(y, i, act_value(kind, alpha, get(x, i, n)), n, 0);
}

INLINE void act_all(ct_act_t kind, float alpha, int64_t count, const void *x, void *y)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    act_step(kind, alpha, x, y, i, CPU__VW);
  if (i < count) act_step(kind, alpha, x, y, i, (int)(count - i));
}

INLINE void act_bwd_step(ct_act_t kind, float alpha, const void *v, const void *dy, const void *dy2,
                         void *dx, int64_t i, int n)
{
  vec_t g = get(dy, i, n);
  if (dy2) g += get(dy2, i, n);
  put(dx, i, g * act_slope(kind, alpha, get(v, i, n)), n, 0);
}

INLINE void act_bwd_all(ct_act_t kind, float alpha, int64_t count, const void *v, const void *dy,
                        const void *dy2, void *dx)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    act_bwd_step(kind, alpha, v, dy, dy2, dx, i, CPU__VW);
  if (i < count) act_bwd_step(kind, alpha, v, dy, dy2, dx, i, (int)(count - i));
}

/* Computes y = f(x).  Each call has a constant kind, so that the compiler moves the switch out of
 * the loops. */
static void act(cpu__act_t f, int64_t count, const void *x, void *y)
{
  switch (f.kind) {
#define X(kind, ...)                     \
  case kind:                             \
    act_all(kind, f.alpha, count, x, y); \
    break;
    CT_ACT_LIST(X)
#undef X
  }
}

static void act_bwd(cpu__act_t f, int64_t count, const void *v, const void *dy, const void *dy2,
                    void *dx)
{
  switch (f.kind) {
#define X(kind, ...)                                   \
  case kind:                                           \
    act_bwd_all(kind, f.alpha, count, v, dy, dy2, dx); \
    break;
    CT_ACT_LIST(X)
#undef X
  }
}
