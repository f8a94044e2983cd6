/** \file expr_fn.h  The functions of elementwise programs and their gradients, with PyTorch's
 * special cases. Module-internal. */
#ifndef GPU_EXPR_FN_H
#define GPU_EXPR_FN_H
#include "backend/ct_expr.h"
#include "cuda/kernels/kernel.h"

static constexpr float GPU_ROOT_2_PI = 0.79788456f;

CT_D float fn_sigmoid(float x)
{
  return 1 / (1 + expf(-x));
}

CT_D float fn_softplus(float x, float beta, float threshold)
{
  return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta;
}

CT_D float fn_sign(float x)
{
  return x > 0 ? 1 : x < 0 ? -1 : x;
}

CT_D float fn_smaller(float a, float b)
{
  return a < b || a != a ? a : b;
}

CT_D float fn_limited(float x, float low, float high)
{
  float v = x < low ? low : x;
  return v > high ? high : v;
}

CT_D float fn_gelu_inner(float x)
{
  return GPU_ROOT_2_PI * (x + 0.044715f * x * x * x);
}

CT_D float fn_normal(float x)
{
  return 0.5f * (1 + erff(x * 0.70710678f));
}

/* Functions of one operand. */
CT_D float fn_value_one(int fn, float a)
{
  switch (fn) {
  case CT_FN_RELU:
    return a <= 0 ? 0 : a;
  case CT_FN_GELU:
    return a * fn_normal(a);
  case CT_FN_GELU_TANH:
    return 0.5f * a * (1 + tanhf(fn_gelu_inner(a)));
  case CT_FN_SIGMOID:
    return fn_sigmoid(a);
  case CT_FN_TANH:
    return tanhf(a);
  case CT_FN_SILU:
    return a / (1 + expf(-a));
  case CT_FN_MISH:
    return a * tanhf(fn_softplus(a, 1, 20));
  case CT_FN_LOGSIGMOID:
    return fn_smaller(a, 0) - log1pf(expf(-fabsf(a)));
  case CT_FN_HARDSWISH:
    return a * fn_limited(a + 3, 0, 6) * (1.f / 6);
  case CT_FN_EXP:
    return expf(a);
  case CT_FN_EXPM1:
    return expm1f(a);
  case CT_FN_LOG:
    return logf(a);
  case CT_FN_LOG1P:
    return log1pf(a);
  case CT_FN_SIN:
    return sinf(a);
  case CT_FN_COS:
    return cosf(a);
  case CT_FN_TAN:
    return tanf(a);
  case CT_FN_ASIN:
    return asinf(a);
  case CT_FN_ACOS:
    return acosf(a);
  case CT_FN_ATAN:
    return atanf(a);
  case CT_FN_SINH:
    return sinhf(a);
  case CT_FN_COSH:
    return coshf(a);
  case CT_FN_SQRT:
    return sqrtf(a);
  case CT_FN_RSQRT:
    return 1 / sqrtf(a);
  case CT_FN_ABS:
    return fabsf(a);
  case CT_FN_SIGN:
    return fn_sign(a);
  case CT_FN_FLOOR:
    return floorf(a);
  case CT_FN_CEIL:
    return ceilf(a);
  case CT_FN_ROUND:
    return rintf(a);
  case CT_FN_DETACH:
    return a;
  case CT_FN_ERF:
    return erff(a);
  default:
    return a == 0; /* CT_FN_NOT */
  }
}

CT_D float fn_value(int fn, float a, float b, float c)
{
  switch (fn) {
  case CT_FN_ADD:
    return a + b;
  case CT_FN_SUB:
    return a - b;
  case CT_FN_MUL:
    return a * b;
  case CT_FN_DIV:
    return a / b;
  case CT_FN_POW:
    return powf(a, b);
  case CT_FN_MINIMUM:
    return fn_smaller(a, b);
  case CT_FN_MAXIMUM:
    return a > b || a != a ? a : b;
  case CT_FN_EQ:
    return a == b;
  case CT_FN_NE:
    return a != b;
  case CT_FN_LT:
    return a < b;
  case CT_FN_LE:
    return a <= b;
  case CT_FN_GT:
    return a > b;
  case CT_FN_GE:
    return a >= b;
  case CT_FN_AND:
    return a != 0 && b != 0;
  case CT_FN_OR:
    return a != 0 || b != 0;
  case CT_FN_ATAN2:
    return atan2f(a, b);
  case CT_FN_FMOD:
    return fmodf(a, b);
  case CT_FN_WHERE:
    return a != 0 ? b : c;
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
    return fn_limited(a, b, c);
  case CT_FN_THRESHOLD:
    return a <= b ? c : a;
  case CT_FN_HARDSHRINK:
    return a >= -b && a <= b ? 0 : a;
  case CT_FN_SOFTSHRINK:
    return a > b ? a - b : a < -b ? a + b : a != a ? a : 0;
  case CT_FN_SOFTPLUS:
    return fn_softplus(a, b, c);
  case CT_FN_ELU:
    return a <= 0 ? b * expm1f(a) : a;
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return a > 0 ? a : b * a;
  default:
    return fn_value_one(fn, a);
  }
}

/* Returns the derivative of a smooth function of one operand, given its result r. */
CT_D float fn_slope(int fn, float a, float r)
{
  float s, t;
  switch (fn) {
  case CT_FN_GELU:
    return fn_normal(a) + a * expf(-0.5f * a * a) * 0.39894228f;
  case CT_FN_GELU_TANH:
    t = tanhf(fn_gelu_inner(a));
    return 0.5f * (1 + t) + 0.5f * a * (1 - t * t) * GPU_ROOT_2_PI * (1 + 3 * 0.044715f * a * a);
  case CT_FN_SIGMOID:
    return r * (1 - r);
  case CT_FN_TANH:
    return 1 - r * r;
  case CT_FN_SILU:
    s = fn_sigmoid(a);
    return s * (1 + a * (1 - s));
  case CT_FN_MISH:
    t = tanhf(fn_softplus(a, 1, 20));
    return t + a * (1 - t * t) * fn_sigmoid(a);
  case CT_FN_LOGSIGMOID:
    return fn_sigmoid(-a);
  case CT_FN_EXP:
    return r;
  case CT_FN_EXPM1:
    return r + 1;
  case CT_FN_LOG:
    return 1 / a;
  case CT_FN_LOG1P:
    return 1 / (1 + a);
  case CT_FN_SIN:
    return cosf(a);
  case CT_FN_COS:
    return -sinf(a);
  case CT_FN_TAN:
    return 1 + r * r;
  case CT_FN_ASIN:
    return 1 / sqrtf(1 - a * a);
  case CT_FN_ACOS:
    return -1 / sqrtf(1 - a * a);
  case CT_FN_ATAN:
    return 1 / (1 + a * a);
  case CT_FN_SINH:
    return coshf(a);
  case CT_FN_COSH:
    return sinhf(a);
  case CT_FN_SQRT:
    return 0.5f / r;
  case CT_FN_RSQRT:
    return -0.5f * r * r * r;
  case CT_FN_ABS:
    return fn_sign(a);
  default: /* CT_FN_ERF */
    return 1.12837917f * expf(-a * a);
  }
}

/* Returns the gradient of the first operand of a function with kinks. */
CT_D float fn_pull_kinked(int fn, float a, float b, float c, float g, float r)
{
  switch (fn) {
  case CT_FN_CLAMP:
    return a > b && a < c ? g : 0;
  case CT_FN_HARDTANH:
    return a <= b || a >= c ? 0 : g;
  case CT_FN_THRESHOLD:
    return a <= b ? 0 : g;
  case CT_FN_HARDSHRINK:
  case CT_FN_SOFTSHRINK:
    return a >= -b && a <= b ? 0 : g;
  case CT_FN_SOFTPLUS:
    return a * b > c ? g : g * fn_sigmoid(a * b);
  case CT_FN_ELU:
    return a <= 0 ? g * b * expf(a) : g;
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return a > 0 ? g : g * b;
  case CT_FN_RELU:
    return a <= 0 ? 0 : g;
  case CT_FN_HARDSWISH:
    return a <= -3 ? 0 : a < 3 ? g * (a * (1.f / 3) + 0.5f) : g;
  default:
    return g * fn_slope(fn, a, r);
  }
}

CT_D float fn_pull_power(int k, float a, float b, float g, float r)
{
  if (k == 0) return b == 0 ? 0 : g * (b * powf(a, b - 1));
  if (b == 0 ? a >= 0 : a == 0 && b >= 0) return 0;
  return g * (r * logf(a));
}

/** Returns the gradient of operand k, given the gradient g of the result r. */
CT_D float fn_pull(int fn, int k, float a, float b, float c, float g, float r)
{
  float square = a * a + b * b;
  switch (fn) {
  case CT_FN_ADD:
    return g;
  case CT_FN_SUB:
    return k ? -g : g;
  case CT_FN_MUL:
    return g * (k ? a : b);
  case CT_FN_DIV:
    return k ? -g * (r / b) : g / b;
  case CT_FN_POW:
    return fn_pull_power(k, a, b, g, r);
  case CT_FN_MINIMUM:
    return a == b ? 0.5f * g : (k ? b > a : a > b) ? 0 : g;
  case CT_FN_MAXIMUM:
    return a == b ? 0.5f * g : (k ? b < a : a < b) ? 0 : g;
  case CT_FN_ATAN2:
    return square == 0 ? 0 : (k ? -g * a : g * b) / square;
  case CT_FN_FMOD:
    return k ? -g * truncf(a / b) : g;
  case CT_FN_WHERE:
    return (a != 0) == (k == 1) ? g : 0;
  case CT_FN_PRELU:
    if (k == 1) return a > 0 ? 0 : g * a;
    return fn_pull_kinked(fn, a, b, c, g, r);
  default:
    return fn_pull_kinked(fn, a, b, c, g, r);
  }
}

#endif
