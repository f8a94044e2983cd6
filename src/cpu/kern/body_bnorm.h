/** \file kern/body_bnorm.h  Inner loops of batch normalisation.  Module-internal.
 *
 * A part is read by columns of vectors, a few rows high, from left to right: so the memory of each
 * row is read in order, and the coefficients and sums, which stay in the L1 cache, are loaded once
 * for several rows. */
#include "cpu/kern/vec.h"

/* The maximum height of a column, for narrow parts (a pixel of a blocked layout) and wider ones.
 * The sums of a column are added up before they are added to those of the part: long chains of
 * additions would lose digits.  Loops that write use lower columns: the processor can combine
 * non-temporal stores only to few cache lines at a time. */
#define NARROW   16
#define TALL     256
#define LOW      4
#define LOW_PUTS 2

/* Rows of one vector each: n valid lanes; the first element of the first row is `at`, which belongs
 * to channel j of the part. */
typedef struct column {
  int64_t rows, stride, at, j;
  int n;
} column_t;

/* Prefetches the elements that a loop reads later: the processor itself overlaps the memory's
 * latency with arithmetic only over a short distance. */
INLINE void fetch(const void *p, int64_t i)
{
  __builtin_prefetch((const elem_t *)p + i + 1024);
}

/* Calls `step` for each column of a part; low: the height in wide parts.  The compiler makes a
 * separate loop for whole vectors. */
INLINE void each_column(cpu__rows_t r, int low, void (*step)(const void *args, column_t c),
                        const void *args)
{
  int64_t high = r.width <= NARROW ? TALL : low;

  for (int64_t row = 0; row < r.rows; row += high) {
    int64_t left = r.rows - row, rows = left < high ? left : high, at = row * r.stride, j = 0;
    for (; j + CPU__VW <= r.width; j += CPU__VW)
      step(args, (column_t){rows, r.stride, at + j, j, CPU__VW});
    if (j < r.width) step(args, (column_t){rows, r.stride, at + j, j, (int)(r.width - j)});
  }
  if (r.rest) step(args, (column_t){1, 0, r.rows * r.stride, 0, (int)r.rest});
}

/* ---- sums ---- */

/* The sums of a column; two of each, to hide the latency of additions. */
typedef struct sums {
  vec_t sum[2], dot[2];
} sums_t;

/* Adds sums to those of a part. */
INLINE void sums_add(const sums_t *s, float *out, int64_t channels, int64_t j)
{
  float *sum = out + CPU__BN_SUM * channels + j, *dot = out + CPU__BN_DOT * channels + j;
  store(sum, load(sum, CPU__VW) + (s->sum[0] + s->sum[1]), CPU__VW);
  store(dot, load(dot, CPU__VW) + (s->dot[0] + s->dot[1]), CPU__VW);
}

INLINE void moment_step(sums_t *s, int k, const void *x, int64_t i, vec_t shift, int n)
{
  fetch(x, i);
  vec_t v = get_or(x, i, n, shift) - shift;
  s->sum[k] += v;
  s->dot[k] += v * v;
}

typedef struct moments {
  const void *x;
  float *out;
  int64_t channels;
} moments_t;

INLINE void moments_column(const void *args, column_t c)
{
  const moments_t *m = args;
  vec_t shift = load(m->out + CPU__BN_SHIFT * m->channels + c.j, CPU__VW);
  sums_t s = {0};
  int64_t row = 0;

  for (; row + 2 <= c.rows; row += 2) {
    moment_step(&s, 0, m->x, c.at + row * c.stride, shift, c.n);
    moment_step(&s, 1, m->x, c.at + (row + 1) * c.stride, shift, c.n);
  }
  if (row < c.rows) moment_step(&s, 0, m->x, c.at + row * c.stride, shift, c.n);
  sums_add(&s, m->out, m->channels, c.j);
}

/* Computes shifted sums (Chan, Golub, LeVeque, "Algorithms for computing the sample variance",
 * 1983): the variance stays accurate even if it is tiny compared with the mean. */
static void bn_sums(cpu__rows_t r, const void *x, float *out)
{
  const moments_t m = {x, out, r.channels};
  int64_t first = r.rows > 0 ? r.width : r.rest;

  memset(out, 0, (size_t)(CPU__BN_SUMS * r.channels) * sizeof *out);
  for (int64_t j = 0; j < first; j += CPU__VW) {
    int n = first - j < CPU__VW ? (int)(first - j) : CPU__VW;
    store(out + CPU__BN_SHIFT * r.channels + j, get(x, j, n), CPU__VW);
  }
  each_column(r, LOW, moments_column, &m);
}

/* ---- forward ---- */

INLINE vec_t coef(const float *coefs, int64_t channels, int which, int64_t j)
{
  return load(coefs + which * channels + j, CPU__VW);
}

typedef struct norm {
  vec_t mean, scale, bias;
} norm_t;

INLINE norm_t norm_of(const float *coefs, int64_t channels, int64_t j)
{
  return (norm_t){coef(coefs, channels, CPU__BN_MEAN, j), coef(coefs, channels, CPU__BN_SCALE, j),
                  coef(coefs, channels, CPU__BN_BIAS, j)};
}

INLINE void apply_step(const cpu__bn_fwd_t *a, norm_t k, int64_t i, int n)
{
  fetch(a->x, i);
  if (a->x2) fetch(a->x2, i);
  vec_t v = (get(a->x, i, n) - k.mean) * k.scale + k.bias;
  if (a->x2) v += get(a->x2, i, n);
  if (a->relu) v = relu_of(v);
  if (a->relu == CT_RELU6) v = choose(v > 6, splat(6), v);
  put(a->y, i, v, n, a->stream);
}

typedef struct applied {
  cpu__bn_fwd_t a;
  const float *coefs;
  int64_t channels;
} applied_t;

INLINE void apply_column(const void *args, column_t c)
{
  const applied_t *p = args;
  norm_t k = norm_of(p->coefs, p->channels, c.j);

  for (int64_t row = 0; row < c.rows; row++)
    apply_step(&p->a, k, c.at + row * c.stride, c.n);
}

static void bn_apply(cpu__rows_t r, const cpu__bn_fwd_t *a, const float *coefs)
{
  const applied_t p = {*a, coefs, r.channels};

  each_column(r, LOW_PUTS, apply_column, &p);
  put_end(a->stream);
}

/* ---- backward ---- */

/* The smallest float32 value that is stored as 6; ties round to the even 6. */
#ifdef CPU__BF16
#  define SIX (6 - 0x1p-6f)
#else
#  define SIX 6
#endif

/* Returns the gradient before the ReLU; centred: x - mean. */
INLINE vec_t masked(const cpu__bn_bwd_t *a, norm_t k, vec_t centred, int64_t i, int n)
{
  fetch(a->x, i);
  fetch(a->dy, i);
  if (a->dy2) fetch(a->dy2, i);
  if (a->mask == CPU__MASK_Y) fetch(a->y, i);
  vec_t g = get(a->dy, i, n);
  if (a->dy2) g += get(a->dy2, i, n);
  if (a->mask == CPU__MASK_NONE) return g;
  vec_t v = a->mask == CPU__MASK_Y ? get(a->y, i, n) : centred * k.scale + k.bias;
  g = keep(~(v <= 0), g);
  return a->relu6 ? keep(~(v >= SIX), g) : g;
}

typedef struct back {
  cpu__bn_bwd_t a;
  const float *coefs;
  float *sums;
  int64_t channels;
} back_t;

INLINE void bwd_sums_step(sums_t *s, int half, const cpu__bn_bwd_t *a, norm_t k, int64_t i, int n)
{
  vec_t centred = get(a->x, i, n) - k.mean, g = masked(a, k, centred, i, n);
  s->sum[half] += g;
  s->dot[half] += g * centred;
}

INLINE void bwd_sums_column(const void *args, column_t c)
{
  const back_t *b = args;
  norm_t k = norm_of(b->coefs, b->channels, c.j);
  sums_t s = {0};
  int64_t row = 0;

  for (; row + 2 <= c.rows; row += 2) {
    bwd_sums_step(&s, 0, &b->a, k, c.at + row * c.stride, c.n);
    bwd_sums_step(&s, 1, &b->a, k, c.at + (row + 1) * c.stride, c.n);
  }
  if (row < c.rows) bwd_sums_step(&s, 0, &b->a, k, c.at + row * c.stride, c.n);
  sums_add(&s, b->sums, b->channels, c.j);
}

static void bn_bwd_sums(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs, float *sums)
{
  const back_t b = {*a, coefs, sums, r.channels};

  memset(sums, 0, (size_t)(CPU__BN_SUMS * r.channels) * sizeof *sums);
  each_column(r, LOW, bwd_sums_column, &b);
}

INLINE void bwd_apply_step(const cpu__bn_bwd_t *a, norm_t k, vec_t dy_mean, vec_t dy_slope,
                           int64_t i, int n)
{
  vec_t centred = get(a->x, i, n) - k.mean, g = masked(a, k, centred, i, n);
  if (a->dx2) put(a->dx2, i, g, n, a->stream2);
  if (!a->dx) return;
  vec_t dx = k.scale * (g - dy_mean - centred * dy_slope);
  if (a->dx_add) dx += get(a->dx_add, i, n);
  put(a->dx, i, dx, n, a->stream);
}

INLINE void bwd_apply_column(const void *args, column_t c)
{
  const back_t *b = args;
  norm_t k = norm_of(b->coefs, b->channels, c.j);
  vec_t dy_mean = coef(b->coefs, b->channels, CPU__BN_DY_MEAN, c.j);
  vec_t dy_slope = coef(b->coefs, b->channels, CPU__BN_DY_SLOPE, c.j);

  for (int64_t row = 0; row < c.rows; row++)
    bwd_apply_step(&b->a, k, dy_mean, dy_slope, c.at + row * c.stride, c.n);
}

static void bn_bwd_apply(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs)
{
  const back_t b = {*a, coefs, NULL, r.channels};

  each_column(r, LOW_PUTS, bwd_apply_column, &b);
  put_end(a->stream | a->stream2);
}
#undef SIX
#undef NARROW
#undef TALL
#undef LOW
#undef LOW_PUTS
