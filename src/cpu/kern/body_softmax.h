/** \file kern/body_softmax.h  Inner loops of cross-entropy.  Module-internal. */
#include "cpu/kern/vec.h"

static void exp_sum(int64_t count, const float *x, float *largest, float *sum)
{
  const vec_t least = splat(-INFINITY);
  vec_t m = least, s = {0};
  int64_t end = whole(count);
  int rest = (int)(count - end);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    m = max_of(load_or(x + i, i < end ? CPU__VW : rest, least), m);
  }
  float top = lanes_max(m);
  for (int64_t i = 0; i < count; i += CPU__VW)
    s += exp_of(load_or(x + i, i < end ? CPU__VW : rest, least) - top);
  *largest = top;
  *sum = lanes_sum(s);
}

static void exp_scaled(int64_t count, const float *x, float shift, float factor, float *dx)
{
  int64_t end = whole(count);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    store(dx + i, exp_of(load(x + i, n) - shift) * factor, n);
  }
}

/* ---- columns: element k of pixel i is x[k * apart + i] ---- */

INLINE int lanes_at(int64_t i, int64_t n)
{
  return n - i < CPU__VW ? (int)(n - i) : CPU__VW;
}

static void exp_sum_columns(int64_t count, int64_t apart, int64_t n, const float *x, float *largest,
                            float *sum)
{
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_at(i, n);
    vec_t m = splat(-INFINITY), s = {0};
    for (int64_t k = 0; k < count; k++)
      m = max_of(load(x + k * apart + i, lanes), m);
    for (int64_t k = 0; k < count; k++)
      s += exp_of(load(x + k * apart + i, lanes) - m);
    store(largest + i, m, lanes);
    store(sum + i, s, lanes);
  }
}

static void exp_scaled_columns(int64_t count, int64_t apart, int64_t n, const float *x,
                               const float *shift, const float *factor, float *dx)
{
  for (int64_t i = 0; i < n; i += CPU__VW) {
    int lanes = lanes_at(i, n);
    vec_t m = load(shift + i, lanes), f = load(factor + i, lanes);
    for (int64_t k = 0; k < count; k++)
      store(dx + k * apart + i, exp_of(load(x + k * apart + i, lanes) - m) * f, lanes);
  }
}
