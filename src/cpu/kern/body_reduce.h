/** \file kern/body_reduce.h  Inner loops of reductions and softmax.  Module-internal.
 *
 * A row is contiguous.  Columns are side by side: element k of column i is x[k * apart + i]. */
#include "cpu/kern/vec.h"

/* Values that are summed in float32 before the sum is added to a double. */
enum { RUN = 32 };

/* Returns the number of valid lanes of the vector at element i of `count`. */
INLINE int lanes_from(int64_t i, int64_t count)
{
  return count - i < CPU__VW ? (int)(count - i) : CPU__VW;
}

INLINE vec_t powers_of(vec_t v, float p)
{
  for (int j = 0; j < CPU__VW; j++)
    v[j] = powf(v[j], p);
  return v;
}

/* ---- sums ---- */

/* Returns the value of lanes beyond the end, which adds nothing. */
INLINE vec_t nothing(cpu__sum_t what, vec_t shift)
{
  switch (what) {
  case CPU__SUM_SQUARES:
    return shift;
  case CPU__SUM_EXPS:
    return splat(-INFINITY);
  case CPU__SUM_EQUAL:
  case CPU__SUM_EQUAL_SIZES:
    return splat(NAN);
  default:
    return splat(0);
  }
}

INLINE vec_t summand(cpu__sum_t what, vec_t v, vec_t shift, float p)
{
  switch (what) {
  case CPU__SUM_SQUARES:
    return (v - shift) * (v - shift);
  case CPU__SUM_SIZES:
    return abs_of(v);
  case CPU__SUM_POWERS:
    return powers_of(abs_of(v), p);
  case CPU__SUM_EXPS:
    return exp_of(v - shift);
  case CPU__SUM_EQUAL:
    return keep(v == shift, splat(1));
  case CPU__SUM_EQUAL_SIZES:
    return keep(abs_of(v) == shift, splat(1));
  default:
    return v;
  }
}

INLINE double row_sum(cpu__sum_t what, int64_t n, const float *x, vec_t shift, float p)
{
  const vec_t rest = nothing(what, shift);
  double sum = 0;
  for (int64_t i = 0; i < n;) {
    int64_t end = n - i < RUN * CPU__VW ? n : i + RUN * CPU__VW;
    vec_t s = {0};
    for (; i + CPU__VW <= end; i += CPU__VW)
      s += summand(what, load(x + i, CPU__VW), shift, p);
    if (i < end) s += summand(what, load_or(x + i, (int)(end - i), rest), shift, p);
    sum += (double)lanes_sum(s);
    i = end;
  }
  return sum;
}

/* The vector of the largest values so far; NaN stays. */
INLINE vec_t most_of(vec_t v, vec_t most)
{
  return choose(v != v, v, max_of(v, most));
}

/* Returns what is compared: the value, its negative, or its size. */
INLINE vec_t rank_of(cpu__sum_t what, vec_t v)
{
  return what == CPU__LEAST ? -v : what == CPU__LARGEST ? abs_of(v) : v;
}

INLINE double row_most(cpu__sum_t what, int64_t n, const float *x)
{
  const float least = what == CPU__LEAST ? INFINITY : what == CPU__LARGEST ? 0 : -INFINITY;
  vec_t most = rank_of(what, splat(least));
  for (int64_t i = 0; i < n; i += CPU__VW)
    most = most_of(rank_of(what, load_or(x + i, lanes_from(i, n), splat(least))), most);
  double top = has_nan(most) ? NAN : lanes_max(most);
  return what == CPU__LEAST ? -top : top;
}

/* The product of all values but the zeros. */
static double row_product(int64_t n, const float *x)
{
  double product = 1;
  for (int64_t i = 0; i < n; i++)
    if (x[i] != 0) product *= (double)x[i];
  return product;
}

static double reduce_row(cpu__sum_t what, int64_t n, const float *x, float shift, float p)
{
  vec_t s = splat(shift);
  switch (what) {
  case CPU__SUM:
    return row_sum(CPU__SUM, n, x, s, p);
  case CPU__SUM_SQUARES:
    return row_sum(CPU__SUM_SQUARES, n, x, s, p);
  case CPU__SUM_SIZES:
    return row_sum(CPU__SUM_SIZES, n, x, s, p);
  case CPU__SUM_POWERS:
    return row_sum(CPU__SUM_POWERS, n, x, s, p);
  case CPU__SUM_EXPS:
    return row_sum(CPU__SUM_EXPS, n, x, s, p);
  case CPU__SUM_EQUAL:
    return row_sum(CPU__SUM_EQUAL, n, x, s, p);
  case CPU__SUM_EQUAL_SIZES:
    return row_sum(CPU__SUM_EQUAL_SIZES, n, x, s, p);
  case CPU__MOST:
    return row_most(CPU__MOST, n, x);
  case CPU__LEAST:
    return row_most(CPU__LEAST, n, x);
  case CPU__LARGEST:
    return row_most(CPU__LARGEST, n, x);
  case CPU__PRODUCT:
    break;
  }
  return row_product(n, x);
}

INLINE void columns_sum(cpu__sum_t what, int64_t rows, int64_t apart, int64_t n, const float *x,
                        const float *shift, float p, double *sums)
{
  for (int64_t r = 0; r < rows; r += RUN)
    for (int64_t i = 0; i < n; i += CPU__VW) {
      int lanes = lanes_from(i, n);
      int64_t end = rows - r < RUN ? rows : r + RUN;
      vec_t s = {0}, of = load(shift + i, lanes);
      for (int64_t k = r; k < end; k++)
        s += summand(what, load(x + k * apart + i, lanes), of, p);
      for (int j = 0; j < lanes; j++)
        sums[i + j] += (double)s[j];
    }
}

INLINE void columns_most(cpu__sum_t what, int64_t rows, int64_t apart, int64_t n, const float *x,
                         double *sums)
{
  const float sign = what == CPU__LEAST ? -1 : 1;
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_from(i, n);
    vec_t most = splat(-INFINITY);
    for (int64_t k = 0; k < rows; k++)
      most = most_of(rank_of(what, load(x + k * apart + i, lanes)), most);
    for (int j = 0; j < lanes; j++) {
      double v = (double)(sign * most[j]), old = sums[i + j];
      if (v != v || (double)sign * v > (double)sign * old) sums[i + j] = v;
    }
  }
}

static void columns_product(int64_t rows, int64_t apart, int64_t n, const float *x, double *sums)
{
  for (int64_t k = 0; k < rows; k++)
    for (int64_t i = 0; i < n; i++)
      if (x[k * apart + i] != 0) sums[i] *= (double)x[k * apart + i];
}

static void reduce_columns(cpu__sum_t what, int64_t rows, int64_t apart, int64_t n, const float *x,
                           const float *shift, float p, double *sums)
{
  switch (what) {
  case CPU__SUM:
    columns_sum(CPU__SUM, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_SQUARES:
    columns_sum(CPU__SUM_SQUARES, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_SIZES:
    columns_sum(CPU__SUM_SIZES, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_POWERS:
    columns_sum(CPU__SUM_POWERS, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_EXPS:
    columns_sum(CPU__SUM_EXPS, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_EQUAL:
    columns_sum(CPU__SUM_EQUAL, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__SUM_EQUAL_SIZES:
    columns_sum(CPU__SUM_EQUAL_SIZES, rows, apart, n, x, shift, p, sums);
    break;
  case CPU__MOST:
    columns_most(CPU__MOST, rows, apart, n, x, sums);
    break;
  case CPU__LEAST:
    columns_most(CPU__LEAST, rows, apart, n, x, sums);
    break;
  case CPU__LARGEST:
    columns_most(CPU__LARGEST, rows, apart, n, x, sums);
    break;
  case CPU__PRODUCT:
    columns_product(rows, apart, n, x, sums);
    break;
  }
}

/* ---- gradients ---- */

INLINE vec_t slope_of(cpu__slope_t what, vec_t v, vec_t a, vec_t m, float p)
{
  switch (what) {
  case CPU__SLOPE_LINE:
    return a * (v - m);
  case CPU__SLOPE_SIGN:
    return choose(v > 0, a, keep(v < 0, -a));
  case CPU__SLOPE_EQUAL:
    return keep(v == m, a);
  case CPU__SLOPE_EQUAL_SIZE:
    return keep(abs_of(v) == m, choose(v > 0, a, keep(v < 0, -a)));
  case CPU__SLOPE_EXP:
    return a * exp_of(v - m);
  case CPU__SLOPE_POWER:
    a *= keep(v != 0, powers_of(abs_of(v) / m, p - 1));
    return choose(v < 0, -a, a);
  case CPU__SLOPE_QUOTIENT:
    return choose(v == 0, m, a / v);
  default:
    return a;
  }
}

/* each: 1 if a and m have a value per element; 0 if they have one value. */
INLINE void slopes_as(cpu__slope_t what, int64_t n, const float *x, const float *a, const float *m,
                      const int each, float p, float *dx)
{
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_from(i, n);
    vec_t v = what == CPU__SLOPE_FILL ? (vec_t){0} : load(x + i, lanes);
    vec_t of = each ? load(a + i, lanes) : splat(*a);
    vec_t middle = each ? load(m + i, lanes) : splat(*m);
    store(dx + i, slope_of(what, v, of, middle, p), lanes);
  }
}

#define SLOPES(what)                         \
  case what:                                 \
    if (each)                                \
      slopes_as(what, n, x, a, m, 1, p, dx); \
    else                                     \
      slopes_as(what, n, x, a, m, 0, p, dx); \
    break

static void slopes(cpu__slope_t what, int64_t n, const float *x, const float *a, const float *m,
                   int each, float p, float *dx)
{
  switch (what) {
    SLOPES(CPU__SLOPE_FILL);
    SLOPES(CPU__SLOPE_LINE);
    SLOPES(CPU__SLOPE_SIGN);
    SLOPES(CPU__SLOPE_EQUAL);
    SLOPES(CPU__SLOPE_EQUAL_SIZE);
    SLOPES(CPU__SLOPE_EXP);
    SLOPES(CPU__SLOPE_POWER);
    SLOPES(CPU__SLOPE_QUOTIENT);
  }
}
#undef SLOPES

/* ---- softmax ---- */

static void soft_row(int log_of, int64_t count, const float *x, float *y)
{
  const vec_t least = splat(-INFINITY);
  vec_t top = least, sum = {0};

  for (int64_t i = 0; i < count; i += CPU__VW)
    top = max_of(load_or(x + i, lanes_from(i, count), least), top);
  float most = lanes_max(top);
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes_from(i, count);
    vec_t e = exp_of(load_or(x + i, n, least) - most);
    sum += e;
    if (!log_of) store(y + i, e, n);
  }
  float all = lanes_sum(sum), share = 1 / all, less = log_of ? logf(all) : 0;
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes_from(i, count);
    store(y + i, log_of ? load(x + i, n) - most - less : load(y + i, n) * share, n);
  }
}

static void soft_columns(int log_of, int64_t count, int64_t apart, int64_t n, const float *x,
                         float *y)
{
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_from(i, n);
    vec_t most = splat(-INFINITY), sum = {0};
    for (int64_t k = 0; k < count; k++)
      most = max_of(load(x + k * apart + i, lanes), most);
    for (int64_t k = 0; k < count; k++) {
      vec_t e = exp_of(load(x + k * apart + i, lanes) - most);
      sum += e;
      if (!log_of) store(y + k * apart + i, e, lanes);
    }
    vec_t share = 1 / sum, less = {0};
    for (int j = 0; j < lanes && log_of; j++)
      less[j] = logf(sum[j]);
    for (int64_t k = 0; k < count; k++) {
      int64_t at = k * apart + i;
      store(y + at, log_of ? load(x + at, lanes) - most - less : load(y + at, lanes) * share,
            lanes);
    }
  }
}

INLINE vec_t soft_slope(int log_of, vec_t y, vec_t g, vec_t sum)
{
  return log_of ? g - exp_of(y) * sum : y * (g - sum);
}

static void soft_row_bwd(int log_of, int64_t count, const float *y, const float *dy, float *dx)
{
  vec_t sum = {0};

  for (int64_t i = 0; i < count; i += CPU__VW) {
    vec_t g = load(dy + i, lanes_from(i, count));
    sum += log_of ? g : g * load(y + i, lanes_from(i, count));
  }
  vec_t all = splat(lanes_sum(sum));
  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = lanes_from(i, count);
    store(dx + i, soft_slope(log_of, load(y + i, n), load(dy + i, n), all), n);
  }
}

static void soft_columns_bwd(int log_of, int64_t count, int64_t apart, int64_t n, const float *y,
                             const float *dy, float *dx)
{
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_from(i, n);
    vec_t sum = {0};
    for (int64_t k = 0; k < count; k++) {
      vec_t g = load(dy + k * apart + i, lanes);
      sum += log_of ? g : g * load(y + k * apart + i, lanes);
    }
    for (int64_t k = 0; k < count; k++) {
      int64_t at = k * apart + i;
      store(dx + at, soft_slope(log_of, load(y + at, lanes), load(dy + at, lanes), sum), lanes);
    }
  }
}
