/** \file kern/body_bnorm.h  Inner loops of batch normalisation.  Module-internal. */
#include "cpu/kern/vec.h"

INLINE vec_t coef(const float *coefs, int which)
{
  return load(coefs + which * CPU__VW, CPU__VW);
}

/* Two accumulators each, to hide the latency of additions. */
typedef struct sums {
  vec_t sum[2], dot[2];
} sums_t;

INLINE void sums_store(const sums_t *s, float *out)
{
  store(out + CPU__BN_SUM * CPU__VW, s->sum[0] + s->sum[1], CPU__VW);
  store(out + CPU__BN_DOT * CPU__VW, s->dot[0] + s->dot[1], CPU__VW);
}

INLINE void moment_step(sums_t *s, int k, const void *x, int64_t i, vec_t shift, int n)
{
  vec_t v = get_or(x, i, n, shift) - shift;
  s->sum[k] += v;
  s->dot[k] += v * v;
}

/* Computes shifted sums (Chan, Golub, LeVeque, "Algorithms for computing the sample variance",
 * 1983): the variance stays accurate even if it is tiny compared with the mean. */
static void bn_sums(cpu__rows_t r, const void *x, float *out)
{
  vec_t shift = get(x, 0, r.width < CPU__VW ? (int)r.width : CPU__VW);
  sums_t s = {0};

  for (int64_t row = 0; row < r.rows; row++) {
    int64_t i = row * r.stride, end = i + r.width;
    for (; i + 2 * CPU__VW <= end; i += 2 * CPU__VW) {
      moment_step(&s, 0, x, i, shift, CPU__VW);
      moment_step(&s, 1, x, i + CPU__VW, shift, CPU__VW);
    }
    for (; i + CPU__VW <= end; i += CPU__VW)
      moment_step(&s, row & 1, x, i, shift, CPU__VW);
    if (i < end) moment_step(&s, 0, x, i, shift, (int)(end - i));
  }
  sums_store(&s, out);
  store(out + CPU__BN_SHIFT * CPU__VW, shift, CPU__VW);
}

typedef struct norm {
  vec_t mean, scale, bias;
} norm_t;

INLINE norm_t norm_of(const float *coefs)
{
  return (norm_t){coef(coefs, CPU__BN_MEAN), coef(coefs, CPU__BN_SCALE), coef(coefs, CPU__BN_BIAS)};
}

INLINE void apply_step(const cpu__bn_fwd_t *a, norm_t k, int64_t i, int n)
{
  vec_t v = (get(a->x, i, n) - k.mean) * k.scale + k.bias;
  if (a->x2) v += get(a->x2, i, n);
  if (a->relu) v = relu_of(v);
  if (a->relu == CT_RELU6) v = choose(v > 6, splat(6), v);
  put(a->y, i, v, n, a->stream);
}

static void bn_apply(cpu__rows_t r, const cpu__bn_fwd_t *args, const float *coefs)
{
  const cpu__bn_fwd_t a = *args;
  norm_t k = norm_of(coefs);

  for (int64_t row = 0; row < r.rows; row++) {
    int64_t i = row * r.stride, end = i + r.width, last = i + whole(r.width);
    for (; i < last; i += CPU__VW)
      apply_step(&a, k, i, CPU__VW);
    if (i < end) apply_step(&a, k, i, (int)(end - i));
  }
  put_end(a.stream);
}

/* The smallest float32 value that is stored as 6; ties round to the even 6. */
#ifdef CPU__BF16
#  define SIX (6 - 0x1p-6f)
#else
#  define SIX 6
#endif

/* Returns the gradient before the ReLU; centred: x - mean. */
INLINE vec_t masked(const cpu__bn_bwd_t *a, norm_t k, vec_t centred, int64_t i, int n)
{
  vec_t g = get(a->dy, i, n);
  if (a->dy2) g += get(a->dy2, i, n);
  if (a->mask == CPU__MASK_NONE) return g;
  vec_t v = a->mask == CPU__MASK_Y ? get(a->y, i, n) : centred * k.scale + k.bias;
  g = keep(~(v <= 0), g);
  return a->relu6 ? keep(~(v >= SIX), g) : g;
}

INLINE void bwd_sums_step(sums_t *s, const cpu__bn_bwd_t *a, norm_t k, int64_t i, int n)
{
  vec_t centred = get(a->x, i, n) - k.mean, g = masked(a, k, centred, i, n);
  s->sum[0] += g;
  s->dot[0] += g * centred;
}

static void bn_bwd_sums(cpu__rows_t r, const cpu__bn_bwd_t *args, const float *coefs, float *out)
{
  const cpu__bn_bwd_t a = *args;
  norm_t k = norm_of(coefs);
  sums_t s = {0};

  for (int64_t row = 0; row < r.rows; row++) {
    int64_t i = row * r.stride, end = i + r.width, last = i + whole(r.width);
    for (; i < last; i += CPU__VW)
      bwd_sums_step(&s, &a, k, i, CPU__VW);
    if (i < end) bwd_sums_step(&s, &a, k, i, (int)(end - i));
  }
  sums_store(&s, out);
}

INLINE void bwd_apply_step(const cpu__bn_bwd_t *a, norm_t k, vec_t dy_mean, vec_t dy_slope,
                           int64_t i, int n)
{
  vec_t centred = get(a->x, i, n) - k.mean, g = masked(a, k, centred, i, n);
  if (a->dx2) put(a->dx2, i, g, n, a->stream2);
  if (a->dx) put(a->dx, i, k.scale * (g - dy_mean - centred * dy_slope), n, a->stream);
}

static void bn_bwd_apply(cpu__rows_t r, const cpu__bn_bwd_t *args, const float *coefs)
{
  const cpu__bn_bwd_t a = *args;
  norm_t k = norm_of(coefs);
  vec_t dy_mean = coef(coefs, CPU__BN_DY_MEAN), dy_slope = coef(coefs, CPU__BN_DY_SLOPE);

  for (int64_t row = 0; row < r.rows; row++) {
    int64_t i = row * r.stride, end = i + r.width, last = i + whole(r.width);
    for (; i < last; i += CPU__VW)
      bwd_apply_step(&a, k, dy_mean, dy_slope, i, CPU__VW);
    if (i < end) bwd_apply_step(&a, k, dy_mean, dy_slope, i, (int)(end - i));
  }
  put_end(a.stream);
}
#undef SIX
