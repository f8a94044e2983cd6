/* The low types: bfloat16, the upper half of a float32, and IEEE 754's binary16. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct low {
  int digits;     /* binary, of the significand */
  int smallest;   /* exponent of the smallest number above 0 */
  double largest; /* finite number */
} low_t;

static const low_t bf16 = {8, -133, 0x1.fep127}, f16 = {11, -24, 65504};

double ct__ref_widened(ct_dtype_t low, uint16_t bits)
{
  if (low == CT_BF16) {
    uint32_t wide = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &wide, sizeof v);
    return v;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double v = exponent == 0 ? fraction * 0x1p-24 : ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) v = fraction ? NAN : INFINITY;
  return bits >> 15 ? -v : v;
}

/* To the nearest number of the type; the default rounding direction is to even. */
static double rounded(const low_t *t, double v)
{
  int exponent;
  if (v == 0 || !isfinite(v)) return v;
  frexp(v, &exponent);
  int unit = exponent - t->digits < t->smallest ? t->smallest : exponent - t->digits;
  double near = ldexp(nearbyint(ldexp(v, -unit)), unit);
  return fabs(near) > t->largest ? copysign(INFINITY, v) : near;
}

static uint16_t bits_of_f16(double v)
{
  uint16_t sign = signbit(v) ? 0x8000 : 0;
  int exponent;
  if (isnan(v)) return 0x7e00;
  if (isinf(v)) return sign | 0x7c00;
  double fraction = frexp(fabs(v), &exponent); /* in 1/2 to 1 */
  if (fabs(v) < 0x1p-14) return sign | (uint16_t)(fabs(v) * 0x1p24);
  return sign | (uint16_t)((uint16_t)(exponent + 14) << 10 | ((uint16_t)(fraction * 2048) & 1023));
}

uint16_t ct__ref_narrowed(ct_dtype_t low, double v)
{
  if (low == CT_F16) return bits_of_f16(rounded(&f16, v));
  if (isnan(v)) return 0x7fc0;
  float near = (float)rounded(&bf16, v);
  uint32_t wide;
  memcpy(&wide, &near, sizeof wide);
  return (uint16_t)(wide >> 16);
}
