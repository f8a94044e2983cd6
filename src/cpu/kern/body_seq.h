/** \file kern/body_seq.h  Inner loops of LSTM, attention and layer normalisation.
 * Module-internal. */
#include "cpu/kern/vec.h"

/* Returns the number of valid lanes of the vector at element i of a row of `count`. */
INLINE int lanes(int64_t count, int64_t i)
{
  return count - i < CPU__VW ? (int)(count - i) : CPU__VW;
}

/* ---- sums ---- */

static void add_rows(int64_t rows, int64_t count, int64_t stride, const float *x, double *sums)
{
  for (int64_t r = 0; r < rows; r++, x += stride)
    for (int64_t i = 0; i < count; i++)
      sums[i] += x[i];
}

/* ---- softmax ---- */

static float dot(int64_t count, const float *a, const float *b)
{
  vec_t sum = {0};

  for (int64_t i = 0; i < count; i += CPU__VW)
    sum += load(a + i, lanes(count, i)) * load(b + i, lanes(count, i));
  return lanes_sum(sum);
}

/* Returns 2^x for x <= 0 or little more; 0 for x < -126.  The polynomial is that of exp2f() in
 * Cephes, with a relative error of 1.7e-7. */
INLINE vec_t exp2_of(vec_t x)
{
  const float magic = 0x1.8p23f; /* adding a number of this size rounds to an integer */
  vec_t rounded = x + magic, r = x - (rounded - magic);
  vec_t p = splat(1.535336188319500e-4f);
  p = p * r + 1.339887440266574e-3f;
  p = p * r + 9.618437357674640e-3f;
  p = p * r + 5.550332471162809e-2f;
  p = p * r + 2.402264791363012e-1f;
  p = p * r + 6.931472028550421e-1f;
  p = p * r + 1;
  return keep(~(x < -126), (vec_t)((mask_t)p + ((mask_t)rounded << 23)));
}

/* Returns the scores at i in units of log 2, minus `shift`; -infinity from the n-th lane on. */
INLINE vec_t score_at(const cpu__scores_t *s, const float *x, int64_t i, int n, float shift,
                      const int biased)
{
  const float log2_e = 1.44269504088896341f;
  vec_t v = load_or(x + i, n, splat(-INFINITY));
  if (biased) return v * (s->scale * log2_e) + (load(s->bias + i, n) * log2_e - shift);
  return v * (s->scale * log2_e) - shift;
}

/* Hides the elements before s->low that share its vector; returns the first of them. */
INLINE int64_t hide_first(const cpu__scores_t *s, float *x, float value)
{
  int64_t first = whole(s->low);
  for (int64_t j = first; j < s->low; j++)
    x[j] = value;
  return first;
}

static void clear(float *x, int64_t from, int64_t to)
{
  for (int64_t i = from; i < to; i += CPU__VW)
    store(x + i, (vec_t){0}, lanes(to, i));
}

/* Returns the end of the vector with element i - 1. */
INLINE int64_t vector_end(int64_t i)
{
  return (i + CPU__VW - 1) / CPU__VW * CPU__VW;
}

INLINE float soft_some(const cpu__scores_t *s, float *x, float *most, float *sum, const int biased)
{
  int64_t first = hide_first(s, x, -INFINITY);
  vec_t top = splat(-INFINITY), sums = {0};
  for (int64_t i = first; i < s->high; i += CPU__VW)
    top = max_of(score_at(s, x, i, lanes(s->high, i), 0, biased), top);
  float before = *most, largest = lanes_max(top);
  *most = largest > before ? largest : before;
  float shift = *most > -INFINITY ? *most : 0, factor = exp2_of(splat(before - shift))[0];
  for (int64_t i = first; i < s->high; i += CPU__VW) {
    vec_t e = exp2_of(score_at(s, x, i, lanes(s->high, i), shift, biased));
    sums += e;
    store(x + i, e, CPU__VW);
  }
  *sum = *sum * factor + lanes_sum(sums);
  return factor;
}

static float soft_part(const cpu__scores_t *s, float *x, float *most, float *sum)
{
  if (s->low >= s->high) {
    clear(x, 0, s->end);
    return 1;
  }
  float factor = s->bias ? soft_some(s, x, most, sum, 1) : soft_some(s, x, most, sum, 0);
  clear(x, 0, whole(s->low));
  clear(x, vector_end(s->high), s->end);
  return factor;
}

INLINE void soft_again(const cpu__scores_t *s, float log_sum, float mean, float *x, float *dx,
                       float *dbias, const int biased, const int add)
{
  int64_t first = hide_first(s, x, -INFINITY);
  hide_first(s, dx, 0);
  for (int64_t i = first; i < s->high; i += CPU__VW) {
    int n = lanes(s->high, i);
    vec_t p = exp2_of(score_at(s, x, i, n, log_sum, biased)), g = p * (load(dx + i, n) - mean);
    if (dbias) store(dbias + i, add ? load(dbias + i, n) + g : g, n);
    store(x + i, p, CPU__VW);
    store(dx + i, g * s->scale, CPU__VW);
  }
}

static void soft_part_bwd(const cpu__scores_t *s, float log_sum, float mean, float *x, float *dx,
                          float *dbias, int add)
{
  int64_t low = whole(s->low), high = vector_end(s->high);
  if (s->low >= s->high) low = high = 0;
  if (dbias && !add) {
    clear(dbias, 0, high > low ? low : 0);
    clear(dbias, high > low ? s->high : 0, s->count);
  }
  if (high > low && s->bias)
    soft_again(s, log_sum, mean, x, dx, dbias, 1, add);
  else if (high > low)
    soft_again(s, log_sum, mean, x, dx, NULL, 0, 0);
  clear(x, 0, low);
  clear(dx, 0, low);
  clear(x, high, s->end);
  clear(dx, high, s->end);
}

/* ---- LSTM ---- */

static void lstm(int64_t h, float *gates, const float *c0, float *c, float *y)
{
  float *ig = gates, *fg = gates + h, *gg = gates + 2 * h, *og = gates + 3 * h;

  for (int64_t j = 0; j < h; j += CPU__VW) {
    int n = lanes(h, j);
    vec_t i = sigmoid_of(load(ig + j, n));
    vec_t f = sigmoid_of(load(fg + j, n));
    vec_t g = tanh_of(load(gg + j, n));
    vec_t o = sigmoid_of(load(og + j, n));
    vec_t cell = i * g;
    if (c0) cell += f * load(c0 + j, n);
    store(ig + j, i, n);
    store(fg + j, f, n);
    store(gg + j, g, n);
    store(og + j, o, n);
    store(c + j, cell, n);
    store(y + j, o * tanh_of(cell), n);
  }
}

static void lstm_bwd(int64_t h, const float *gates, const float *c0, const float *c,
                     const float *dy, const float *dh, float *dc, float *dgates)
{
  for (int64_t j = 0; j < h; j += CPU__VW) {
    int n = lanes(h, j);
    vec_t i = load(gates + j, n), f = load(gates + h + j, n);
    vec_t g = load(gates + 2 * h + j, n), o = load(gates + 3 * h + j, n);
    vec_t t = tanh_of(load(c + j, n)), dout = load(dy + j, n), before = {0};
    if (dh) dout += load(dh + j, n);
    if (c0) before = load(c0 + j, n);
    vec_t dcell = load(dc + j, n) + dout * o * (1 - t * t);
    store(dgates + j, dcell * g * i * (1 - i), n);
    store(dgates + h + j, dcell * before * f * (1 - f), n);
    store(dgates + 2 * h + j, dcell * i * (1 - g * g), n);
    store(dgates + 3 * h + j, dout * t * o * (1 - o), n);
    store(dc + j, dcell * f, n);
  }
}

/* ---- GRU ---- */

static void gru(int64_t h, const float *sums, const float *states, const float *bias,
                const float *h0, float *gates, float *y)
{
  for (int64_t j = 0; j < h; j += CPU__VW) {
    int n = lanes(h, j);
    vec_t r = load(sums + j, n), z = load(sums + h + j, n), hn = {0}, before = {0};
    if (bias) {
      r += load(bias + j, n);
      z += load(bias + h + j, n);
      hn = load(bias + 2 * h + j, n);
    }
    if (states) {
      r += load(states + j, n);
      z += load(states + h + j, n);
      hn += load(states + 2 * h + j, n);
      before = load(h0 + j, n);
    }
    r = sigmoid_of(r);
    z = sigmoid_of(z);
    vec_t g = tanh_of(load(sums + 2 * h + j, n) + r * hn);
    store(gates + j, r, n);
    store(gates + h + j, z, n);
    store(gates + 2 * h + j, g, n);
    store(gates + 3 * h + j, hn, n);
    store(y + j, g + z * (before - g), n);
  }
}

static void gru_bwd(int64_t h, const float *gates, const float *h0, const float *dy, int last,
                    float *dh, float *dsums, float *dstates)
{
  for (int64_t j = 0; j < h; j += CPU__VW) {
    int n = lanes(h, j);
    vec_t r = load(gates + j, n), z = load(gates + h + j, n), g = load(gates + 2 * h + j, n);
    vec_t hn = load(gates + 3 * h + j, n), dout = load(dy + j, n), before = {0};
    if (!last) dout += load(dh + j, n);
    if (h0) before = load(h0 + j, n);
    vec_t dg = dout * (1 - z) * (1 - g * g), dr = dg * hn * r * (1 - r);
    vec_t dz = dout * (before - g) * z * (1 - z);
    store(dsums + j, dr, n);
    store(dsums + h + j, dz, n);
    store(dsums + 2 * h + j, dg, n);
    store(dstates + j, dr, n);
    store(dstates + h + j, dz, n);
    store(dstates + 2 * h + j, dg * r, n);
    store(dh + j, dout * z, n);
  }
}

/* ---- layer normalisation; without b by the root mean square ---- */

/* Returns x - mean; lanes beyond the row are zero. */
INLINE vec_t centred(const float *x, int n, float mean)
{
  return load_or(x, n, splat(mean)) - mean;
}

static void lnorm(int64_t count, const float *x, const float *w, const float *b, float eps,
                  float *y, float *stats)
{
  vec_t sum = {0}, squares = {0};

  for (int64_t i = 0; i < count && b; i += CPU__VW)
    sum += load(x + i, lanes(count, i));
  float mean = lanes_sum(sum) / (float)count;
  for (int64_t i = 0; i < count; i += CPU__VW) {
    vec_t v = centred(x + i, lanes(count, i), mean);
    squares += v * v;
  }
  float invstd = 1 / sqrtf(lanes_sum(squares) / (float)count + eps);
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes(count, i);
    vec_t v = centred(x + i, n, mean) * invstd * load(w + i, n);
    store(y + i, b ? v + load(b + i, n) : v, n);
  }
  stats[0] = mean;
  stats[1] = invstd;
}

static void lnorm_bwd(int64_t count, const float *x, const float *w, const float *stats,
                      const float *dy, int rms, float *dx)
{
  const float mean = stats[0], invstd = stats[1];
  vec_t sum = {0}, slope = {0};

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes(count, i);
    vec_t g = load(dy + i, n) * load(w + i, n);
    sum += g;
    slope += g * centred(x + i, n, mean);
  }
  float g_mean = rms ? 0 : lanes_sum(sum) / (float)count;
  float g_slope = lanes_sum(slope) / (float)count * invstd * invstd;
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes(count, i);
    vec_t g = load(dy + i, n) * load(w + i, n);
    store(dx + i, (g - g_mean - centred(x + i, n, mean) * g_slope) * invstd, n);
  }
}

static void lnorm_sums(int64_t count, const float *x, const float *stats, const float *dy,
                       float *dw, float *db)
{
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes(count, i);
    vec_t g = load(dy + i, n);
    store(dw + i, load(dw + i, n) + g * centred(x + i, n, stats[0]) * stats[1], n);
    if (db) store(db + i, load(db + i, n) + g, n);
  }
}

/* ---- rotation ---- */

static void rotate(int64_t half, int apart, const float *cosine, const float *sine, const float *x,
                   float *y)
{
  for (int64_t i = 0; i < half && apart; i += CPU__VW) {
    int n = lanes(half, i);
    vec_t a = load(x + i, n), b = load(x + half + i, n);
    vec_t c = load(cosine + i, n), s = load(sine + i, n);
    store(y + i, a * c - b * s, n);
    store(y + half + i, b * c + a * s, n);
  }
#pragma omp simd
  for (int64_t i = 0; i < (apart ? 0 : half); i++) {
    float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cosine[i] - b * sine[i];
    y[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}
