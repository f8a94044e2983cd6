/** \file kern/body_softmax.h  Inner loops of the cross-entropy.  Module-internal. */
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
