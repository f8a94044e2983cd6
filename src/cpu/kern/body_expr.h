/** \file kern/body_expr.h  Inner loops of elementwise programs (ct_expr.h): each computes one
 * function of a block.  Module-internal; uses functions of kern/body_act.h.
 *
 * The special cases are PyTorch's.  NaN stays NaN. */
#include "cpu/kern/vec.h"

/* ---- elementary functions of the whole number line ---- */

/* Returns 2^k for whole numbers k of -126 to 127. */
INLINE vec_t power_of_two(mask_t k)
{
  return (vec_t)((k + 127) << 23);
}

/* Returns p with e^r = p r^2 + r + 1, and k, of x = k ln 2 + r; |x| < 104. */
INLINE vec_t exp_parts(vec_t x, vec_t *r, mask_t *k)
{
  const float magic = 0x1.8p23f;
  vec_t rounded = x * 1.44269504088896341f + magic, n = rounded - magic;
  *r = x - n * 0.693359375f + n * 2.12194440e-4f;
  *k = (mask_t)rounded - (mask_t)splat(magic);
  vec_t p = splat(1.9875691500e-4f);
  p = p * *r + 1.3981999507e-3f;
  p = p * *r + 8.3334519073e-3f;
  p = p * *r + 4.1665795894e-2f;
  p = p * *r + 1.6666665459e-1f;
  return p * *r + 5.0000001201e-1f;
}

/* Returns e^x; the factor 2^k is applied in two parts, because it may overflow. */
INLINE vec_t exp_whole(vec_t x)
{
  vec_t r, z = choose(x > 89, splat(89), choose(x < -104, splat(-104), x));
  mask_t k, half;
  vec_t p = exp_parts(z, &r, &k);
  half = k >> 1;
  return (p * (r * r) + r + 1) * power_of_two(half) * power_of_two(k - half);
}

/* Near 0 without the addition of 1, which would lose digits. */
INLINE vec_t expm1_of(vec_t x)
{
  vec_t r, z = choose(abs_of(x) < 0.34f, x, splat(0));
  mask_t k;
  vec_t p = exp_parts(z, &r, &k);
  return choose(abs_of(x) < 0.34f, p * (r * r) + r, exp_whole(x) - 1);
}

/* Returns log(x): the polynomial and the split of ln 2 come from Cephes' logf (S. L. Moshier). */
INLINE vec_t log_of(vec_t x)
{
  const float root_half = 0.707106781186547524f;
  mask_t tiny = x < 0x1p-126f;
  vec_t v = choose(tiny, x * 0x1p23f, x);
  mask_t bits = (mask_t)v, e = ((bits >> 23) & 0xff) - 126;
  vec_t m = (vec_t)((bits & 0x7fffff) | 0x3f000000); /* in [1/2, 1) */
  mask_t low = m < root_half;
  vec_t n = __builtin_convertvector(e + low - (tiny & 23), vec_t); /* a mask is -1 */
  vec_t f = choose(low, m + m, m) - 1, z = f * f, p = splat(7.0376836292e-2f);
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  vec_t y = f * z * p - 2.12194440e-4f * n - 0.5f * z;
  vec_t log = f + y + n * 0.693359375f;
  log = choose(x == INFINITY, x, log);
  log = choose(x == 0, splat(-INFINITY), log);
  return choose(x >= 0, log, splat(NAN));
}

/* Returns log(1 + x), corrected for the rounding of 1 + x (W. Kahan). */
INLINE vec_t log1p_whole(vec_t x)
{
  vec_t u = x + 1, d = u - 1;
  vec_t v = log_of(u);
  return choose((d == 0) | (v == INFINITY) | (v == -INFINITY), choose(d == 0, x, v), v * (x / d));
}

/* Returns erf(x); near 0 by the polynomial of Cephes' erff. */
INLINE vec_t erf_of(vec_t x)
{
  vec_t z = x * x, density, p = splat(7.853861353153693e-5f);
  p = p * z - 8.010193625184903e-4f;
  p = p * z + 5.188327685732524e-3f;
  p = p * z - 2.685381193529856e-2f;
  p = p * z + 1.128358514861418e-1f;
  p = p * z - 3.761262582423300e-1f;
  p = p * z + 1.128379165726710f;
  vec_t far = 1 - 2 * normal_of(-1.41421356237f * abs_of(x), &density);
  return choose(abs_of(x) < 1, x * p, with_sign(far, x));
}

/* Returns sqrt(x). */
INLINE vec_t sqrt_of(vec_t x)
{
#if CPU__VW == 16 && defined(__SSE2__)
  return (vec_t)_mm512_sqrt_ps((__m512)x);
#elif CPU__VW == 8 && defined(__SSE2__) && defined(__AVX__)
  return (vec_t)_mm256_sqrt_ps((__m256)x);
#else
  for (int j = 0; j < CPU__VW; j++)
    x[j] = sqrtf(x[j]);
  return x;
#endif
}

/* Rounds to whole numbers, ties to even. */
INLINE vec_t round_of(vec_t x)
{
  const float magic = 0x1p23f;
  vec_t a = abs_of(x), whole_part = (a + magic) - magic;
  return choose(a < magic, with_sign(whole_part, x), x);
}

INLINE vec_t floor_of(vec_t x)
{
  vec_t r = round_of(x);
  return with_sign(abs_of(r - keep(r > x, splat(1))), x);
}

INLINE vec_t ceil_of(vec_t x)
{
  vec_t r = round_of(x);
  return with_sign(abs_of(r + keep(r < x, splat(1))), x);
}

INLINE vec_t trunc_of(vec_t x)
{
  return with_sign(floor_of(abs_of(x)), x);
}

/* Functions that are not worth a vector version: lane by lane. */
#define LANES(name, call)             \
  INLINE vec_t name(vec_t a, vec_t b) \
  {                                   \
    (void)b;                          \
    for (int j = 0; j < CPU__VW; j++) \
      a[j] = call;                    \
    return a;                         \
  }
LANES(pow_of, powf(a[j], b[j]))
LANES(atan2_of, atan2f(a[j], b[j]))
LANES(fmod_of, fmodf(a[j], b[j]))
LANES(sin_of, sinf(a[j]))
LANES(cos_of, cosf(a[j]))
LANES(tan_of, tanf(a[j]))
LANES(asin_of, asinf(a[j]))
LANES(acos_of, acosf(a[j]))
LANES(atan_of, atanf(a[j]))

INLINE vec_t sinh_of(vec_t x)
{
  vec_t e = expm1_of(abs_of(x));
  vec_t half = exp_whole(abs_of(x) - 0.693147181f); /* does not overflow before sinh does */
  return with_sign(choose(abs_of(x) < 40, 0.5f * (e + e / (e + 1)), half), x);
}

INLINE vec_t cosh_of(vec_t x)
{
  vec_t half = 0.5f * exp_whole(abs_of(x)), far = exp_whole(abs_of(x) - 0.693147181f);
  return choose(abs_of(x) < 40, half + 0.25f / half, far);
}

/* ---- values ---- */

INLINE vec_t truth(mask_t m)
{
  return keep(m, splat(1));
}

INLINE vec_t larger_of(vec_t a, vec_t b)
{
  return choose((a > b) | (a != a), a, b);
}

INLINE vec_t smaller_of(vec_t a, vec_t b)
{
  return choose((a < b) | (a != a), a, b);
}

INLINE vec_t limited_to(vec_t a, vec_t low, vec_t high)
{
  vec_t v = choose(a < low, low, a);
  return choose(v > high, high, v);
}

INLINE vec_t softplus_of(vec_t a, vec_t beta, vec_t threshold)
{
  vec_t z = a * beta;
  return choose(z > threshold, a, log1p_whole(exp_whole(z)) / beta);
}

/* Returns tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); 1 for large x. */
INLINE vec_t tanh_softplus(vec_t x)
{
  vec_t e = exp_whole(choose(x > 20, splat(20), x)), n = e * (e + 2);
  return choose(x > 20, splat(1), n / (n + 2));
}

INLINE vec_t gelu_tanh_inner(vec_t x)
{
  return 0.79788456080286536f * (x + 0.044715f * x * x * x);
}

INLINE vec_t logsigmoid_of(vec_t x)
{
  return smaller_of(x, splat(0)) - log1p_of(exp_of(-abs_of(x)));
}

INLINE vec_t softshrunk(vec_t a, vec_t b)
{
  vec_t inside = keep(a != a, a); /* NaN, else 0 */
  return choose(a > b, a - b, choose(a < -b, a + b, inside));
}

/* Functions that are comparisons and logic. */
INLINE vec_t decide(ct_fn_t fn, vec_t a, vec_t b, vec_t c)
{
  switch (fn) {
  case CT_FN_EQ:
    return truth(a == b);
  case CT_FN_NE:
    return truth(a != b);
  case CT_FN_LT:
    return truth(a < b);
  case CT_FN_LE:
    return truth(a <= b);
  case CT_FN_GT:
    return truth(a > b);
  case CT_FN_GE:
    return truth(a >= b);
  case CT_FN_AND:
    return truth((a != 0) & (b != 0));
  case CT_FN_OR:
    return truth((a != 0) | (b != 0));
  case CT_FN_NOT:
    return truth(a == 0);
  case CT_FN_WHERE:
    return choose(a != 0, b, c);
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
    return limited_to(a, b, c);
  case CT_FN_THRESHOLD:
    return choose(a <= b, c, a);
  case CT_FN_MINIMUM:
    return smaller_of(a, b);
  case CT_FN_MAXIMUM:
    return larger_of(a, b);
  default:
    return splat(NAN);
  }
}

/* Functions of one operand. */
INLINE vec_t smooth_value(ct_fn_t fn, vec_t a)
{
  vec_t none = {0}, density;
  switch (fn) {
  case CT_FN_GELU:
    return a * normal_of(a, &density);
  case CT_FN_GELU_TANH:
    return 0.5f * a * (1 + tanh_of(gelu_tanh_inner(a)));
  case CT_FN_SIGMOID:
    return sigmoid_of(a);
  case CT_FN_TANH:
    return tanh_of(a);
  case CT_FN_SILU:
    return a * sigmoid_of(a);
  case CT_FN_MISH:
    return a * tanh_softplus(a);
  case CT_FN_LOGSIGMOID:
    return logsigmoid_of(a);
  case CT_FN_EXP:
    return exp_whole(a);
  case CT_FN_EXPM1:
    return expm1_of(a);
  case CT_FN_LOG:
    return log_of(a);
  case CT_FN_LOG1P:
    return log1p_whole(a);
  case CT_FN_SIN:
    return sin_of(a, none);
  case CT_FN_COS:
    return cos_of(a, none);
  case CT_FN_TAN:
    return tan_of(a, none);
  case CT_FN_ASIN:
    return asin_of(a, none);
  case CT_FN_ACOS:
    return acos_of(a, none);
  case CT_FN_ATAN:
    return atan_of(a, none);
  case CT_FN_SINH:
    return sinh_of(a);
  case CT_FN_COSH:
    return cosh_of(a);
  case CT_FN_SQRT:
    return sqrt_of(a);
  case CT_FN_RSQRT:
    return 1 / sqrt_of(a);
  case CT_FN_ABS:
    return abs_of(a);
  case CT_FN_SIGN:
    return choose(a > 0, splat(1), choose(a < 0, splat(-1), a));
  case CT_FN_FLOOR:
    return floor_of(a);
  case CT_FN_CEIL:
    return ceil_of(a);
  case CT_FN_ROUND:
    return round_of(a);
  case CT_FN_DETACH:
    return a;
  case CT_FN_ERF:
    return erf_of(a);
  default:
    return splat(NAN);
  }
}

INLINE vec_t fn_value(ct_fn_t fn, vec_t a, vec_t b, vec_t c)
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
    return pow_of(a, b);
  case CT_FN_ATAN2:
    return atan2_of(a, b);
  case CT_FN_FMOD:
    return fmod_of(a, b);
  case CT_FN_HARDSHRINK:
    return keep(~((a >= -b) & (a <= b)), a);
  case CT_FN_SOFTSHRINK:
    return softshrunk(a, b);
  case CT_FN_SOFTPLUS:
    return softplus_of(a, b, c);
  case CT_FN_ELU:
    return choose(a <= 0, b * expm1_of(a), a);
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return choose(a > 0, a, b * a);
  case CT_FN_RELU:
    return relu_of(a);
  case CT_FN_HARDSWISH:
    return a * limited_to(a + 3, splat(0), splat(6)) * (1.f / 6);
  case CT_FN_EQ:
  case CT_FN_NE:
  case CT_FN_LT:
  case CT_FN_LE:
  case CT_FN_GT:
  case CT_FN_GE:
  case CT_FN_AND:
  case CT_FN_OR:
  case CT_FN_NOT:
  case CT_FN_WHERE:
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
  case CT_FN_THRESHOLD:
  case CT_FN_MINIMUM:
  case CT_FN_MAXIMUM:
    return decide(fn, a, b, c);
  default:
    return smooth_value(fn, a);
  }
}

/* ---- gradients ---- */

/* Returns the derivative of a function of one operand, given its result r. */
INLINE vec_t smooth_slope(ct_fn_t fn, vec_t a, vec_t r)
{
  vec_t none = {0}, density, s, t;
  switch (fn) {
  case CT_FN_GELU:
    s = normal_of(a, &density);
    return s + a * density * 0.39894228040143268f;
  case CT_FN_GELU_TANH:
    t = tanh_of(gelu_tanh_inner(a));
    return 0.5f * (1 + t) +
           0.5f * a * (1 - t * t) * 0.79788456080286536f * (1 + 3 * 0.044715f * a * a);
  case CT_FN_SIGMOID:
    return r * (1 - r);
  case CT_FN_TANH:
    return 1 - r * r;
  case CT_FN_SILU:
    s = sigmoid_of(a);
    return s * (1 + a * (1 - s));
  case CT_FN_MISH:
    t = tanh_softplus(a);
    return t + a * (1 - t * t) * sigmoid_of(a);
  case CT_FN_LOGSIGMOID:
    return sigmoid_of(-a);
  case CT_FN_EXP:
    return r;
  case CT_FN_EXPM1:
    return r + 1;
  case CT_FN_LOG:
    return 1 / a;
  case CT_FN_LOG1P:
    return 1 / (1 + a);
  case CT_FN_SIN:
    return cos_of(a, none);
  case CT_FN_COS:
    return -sin_of(a, none);
  case CT_FN_TAN:
    return 1 + r * r;
  case CT_FN_ASIN:
    return 1 / sqrt_of(1 - a * a);
  case CT_FN_ACOS:
    return -1 / sqrt_of(1 - a * a);
  case CT_FN_ATAN:
    return 1 / (1 + a * a);
  case CT_FN_SINH:
    return cosh_of(a);
  case CT_FN_COSH:
    return sinh_of(a);
  case CT_FN_SQRT:
    return 0.5f / r;
  case CT_FN_RSQRT:
    return -0.5f * r * r * r;
  case CT_FN_ABS:
    return choose(a > 0, splat(1), choose(a < 0, splat(-1), a));
  case CT_FN_ERF:
    return 1.12837916709551257f * exp_of(-(a * a));
  default:
    return splat(NAN);
  }
}

/* Returns the gradient of the first operand of a function with kinks. */
INLINE vec_t pull_kinked(ct_fn_t fn, vec_t a, vec_t b, vec_t c, vec_t g, vec_t r)
{
  switch (fn) {
  case CT_FN_CLAMP:
    return keep((a > b) & (a < c), g);
  case CT_FN_HARDTANH:
    return keep(~((a <= b) | (a >= c)), g);
  case CT_FN_THRESHOLD:
    return keep(~(a <= b), g);
  case CT_FN_HARDSHRINK:
  case CT_FN_SOFTSHRINK:
    return keep(~((a >= -b) & (a <= b)), g);
  case CT_FN_SOFTPLUS:
    return choose(a * b > c, g, g * sigmoid_of(a * b));
  case CT_FN_ELU:
    return choose(a <= 0, g * b * exp_whole(a), g);
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return choose(a > 0, g, g * b);
  case CT_FN_RELU:
    return keep(~(a <= 0), g);
  case CT_FN_HARDSWISH:
    return choose(a <= -3, splat(0), choose(a < 3, g * (a * (1.f / 3) + 0.5f), g));
  default:
    return g * smooth_slope(fn, a, r);
  }
}

INLINE vec_t pull_power(int k, vec_t a, vec_t b, vec_t g, vec_t r)
{
  if (k == 0) return keep(b != 0, g * (b * pow_of(a, b - 1)));
  mask_t flat = ((b == 0) & (a >= 0)) | ((b > 0) & (a == 0));
  return keep(~flat, g * (r * log_of(a)));
}

/* Returns the gradient of operand k, given the gradient g of the result r. */
INLINE vec_t fn_pull(ct_fn_t fn, int k, vec_t a, vec_t b, vec_t c, vec_t g, vec_t r)
{
  vec_t square;
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
    return pull_power(k, a, b, g, r);
  case CT_FN_MINIMUM:
    return choose(a == b, 0.5f * g, keep(~(k ? b > a : a > b), g));
  case CT_FN_MAXIMUM:
    return choose(a == b, 0.5f * g, keep(~(k ? b < a : a < b), g));
  case CT_FN_ATAN2:
    square = a * a + b * b;
    return keep(square != 0, (k ? -g * a : g * b) / square);
  case CT_FN_FMOD:
    return k ? -g * trunc_of(a / b) : g;
  case CT_FN_WHERE:
    return keep(k == 1 ? a != 0 : a == 0, g);
  case CT_FN_PRELU:
    return k == 1 ? keep(~(a > 0), g * a) : pull_kinked(fn, a, b, c, g, r);
  default:
    return pull_kinked(fn, a, b, c, g, r);
  }
}

/* ---- loops: counts are multiples of CPU__LANES_MAX ---- */

INLINE vec_t lane_at(cpu__lane_t of, int64_t i)
{
  return load(of.p + i * of.step, CPU__VW);
}

INLINE void fn_all(ct_fn_t fn, int64_t count, const cpu__lane_t of[3], float *out)
{
  const cpu__lane_t a = of[0], b = of[1], c = of[2];
  for (int64_t i = 0; i < count; i += CPU__VW)
    store(out + i, fn_value(fn, lane_at(a, i), lane_at(b, i), lane_at(c, i)), CPU__VW);
}

/* Computes a step of a program.  Each call has a constant function, so that the compiler moves the
 * switch out of the loops. */
static void fn(ct_fn_t kind, int64_t count, const cpu__lane_t of[3], float *out)
{
  switch (kind) {
#define X(id, ...)              \
  case id:                      \
    fn_all(id, count, of, out); \
    break;
    CT_FN_LIST(X)
#undef X
  }
}

INLINE void fn_grad_all(ct_fn_t fn, int k, int64_t count, const cpu__lane_t of[5], float *out,
                        int add)
{
  const cpu__lane_t a = of[0], b = of[1], c = of[2], r = of[3], g = of[4];
  for (int64_t i = 0; i < count; i += CPU__VW) {
    vec_t v =
        fn_pull(fn, k, lane_at(a, i), lane_at(b, i), lane_at(c, i), lane_at(g, i), lane_at(r, i));
    if (add) v += load(out + i, CPU__VW);
    store(out + i, v, CPU__VW);
  }
}

/* Computes gradient k of a function that has `gradients` of them. */
INLINE void fn_grad_of(ct_fn_t fn, int gradients, int k, int64_t count, const cpu__lane_t of[5],
                       float *out, int add)
{
  if (k == 0 && gradients > 0)
    fn_grad_all(fn, 0, count, of, out, add);
  else if (k == 1 && gradients > 1)
    fn_grad_all(fn, 1, count, of, out, add);
  else if (k == 2 && gradients > 2)
    fn_grad_all(fn, 2, count, of, out, add);
}

static void fn_grad(ct_fn_t kind, int k, int64_t count, const cpu__lane_t of[5], float *out,
                    int add)
{
#define HAS(reads) (((reads)&CT_FN_FLAT) == 0)
  switch (kind) {
#define X(id, word, operands, commutes, a, b, c, flops)                       \
  case id:                                                                    \
    fn_grad_of(id, HAS(c) ? 3 : HAS(b) ? 2 : HAS(a), k, count, of, out, add); \
    break;
    CT_FN_LIST(X)
#undef X
  }
}

/* Returns the sum of x in float32, added in four chains and then in a binary tree. */
static float block_sum(int64_t count, const float *x)
{
  vec_t sum[4] = {{0}, {0}, {0}, {0}};
  int64_t i = 0, end = whole(count);
  for (; i < end; i += CPU__VW)
    sum[i / CPU__VW % 4] += load(x + i, CPU__VW);
  if (i < count) sum[i / CPU__VW % 4] += load(x + i, (int)(count - i));
  return lanes_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}
