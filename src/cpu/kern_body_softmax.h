/** \file kern_body_softmax.h  Inner loops of the cross-entropy.  Module-internal. */
#include "cpu/kern_vec.h"

/* exp(x) for x <= 0 to about one unit in the last place; 0 below -87.  2^k e^r with |r| <= ln 2
 * / 2; the polynomial for e^r and the split of ln 2 are those of Cephes' expf (S. L. Moshier). */
INLINE vec_t exp_of(vec_t x)
{
  const float magic = 0x1.8p23f; /* a float of this size has no fraction: adding it rounds */
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

static void exp_sum(int64_t count, const float *x, float *largest, float *sum)
{
  const vec_t least = splat(-INFINITY);
  vec_t m = least, s = {0};
  int64_t end = whole(count);
  int rest = (int)(count - end);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    vec_t v = load_or(x + i, i < end ? CPU__VW : rest, least);
    m = choose(v > m, v, m);
  }
  float top = m[0];
  for (int j = 1; j < CPU__VW; j++)
    top = m[j] > top ? m[j] : top;
  for (int64_t i = 0; i < count; i += CPU__VW)
    s += exp_of(load_or(x + i, i < end ? CPU__VW : rest, least) - top);
  *largest = top;
  *sum = 0;
  for (int j = 0; j < CPU__VW; j++)
    *sum += s[j];
}

static void exp_scaled(int64_t count, const float *x, float shift, float factor, float *dx)
{
  int64_t end = whole(count);

  for (int64_t i = 0; i < count; i += CPU__VW) {
    int n = i < end ? CPU__VW : (int)(count - end);
    store(dx + i, exp_of(load(x + i, n) - shift) * factor, n);
  }
}
