/* Exact sums.  A number's 53 bits are cut at the limbs' borders and added to up to three limbs;
 * carries stay in the upper halves of the limbs until the sum is read. */
#include "eval/exact_sum.h"

#include <math.h>

enum { LOWEST = -1152, BITS = 32 };
static const uint64_t mask = 0xffffffffU;

void ct__exact_add(ct__exact_t *s, double x)
{
  int exponent;
  s->nan += isnan(x) != 0;
  s->inf += isinf(x) != 0;
  if (!isfinite(x) || x <= 0) return;
  uint64_t digits = (uint64_t)ldexp(frexp(x, &exponent), 53);
  int at = exponent - 53 - LOWEST, shift = at % BITS;
  uint64_t low = (digits & mask) << shift, high = (digits >> BITS) << shift;
  int64_t *limb = s->limb + at / BITS;
  limb[0] += (int64_t)(low & mask);
  limb[1] += (int64_t)((low >> BITS) + (high & mask));
  limb[2] += (int64_t)(high >> BITS);
}

double ct__exact_value(const ct__exact_t *s)
{
  ct__exact_t carried = *s;
  double sum = 0;
  if (s->nan) return NAN;
  if (s->inf) return INFINITY;
  for (int k = 0; k + 1 < CT__EXACT_LIMBS; k++) {
    carried.limb[k + 1] += carried.limb[k] >> BITS;
    carried.limb[k] &= (int64_t)mask;
  }
  for (int k = CT__EXACT_LIMBS - 1; k >= 0; k--)
    sum += ldexp((double)carried.limb[k], BITS * k + LOWEST);
  return sum;
}
