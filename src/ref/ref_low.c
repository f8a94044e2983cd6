/* Reduced precision: bf16, the upper half of a float32, and fp16, IEEE 754's binary16. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct format {
  int digits;     /* significand bits */
  double normal;  /* smallest normal number */
  double grid;    /* adding and subtracting it rounds a subnormal number */
  double largest; /* largest finite number */
} format_t;

static const format_t bf16 = {8, 0x1p-126, 0x1.8p-81, 0x1.fep127};
static const format_t f16 = {11, 0x1p-14, 0x1.8p28, 65504};

double ct__ref_widened(ct_dtype_t type, uint16_t bits)
{
  uint32_t wide = (uint32_t)bits << 16;
  float v;
  if (type == CT_F16) {
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 0) return (bits >> 15 ? -0x1p-24 : 0x1p-24) * fraction;
    exponent = exponent == 31 ? 255 : exponent + 112; /* infinity and NaN; else another exponent
                                                         bias */
    wide = (uint32_t)(bits >> 15) << 31 | exponent << 23 | fraction << 13;
  }
  memcpy(&v, &wide, sizeof v);
  return v;
}

/* Returns v rounded to nearest, ties to even. */
static double rounded(const format_t *t, double v)
{
  if (!isfinite(v)) return v;
  if (fabs(v) < t->normal) return copysign(v + t->grid - t->grid, v);
  int extra = 53 - t->digits;
  uint64_t bits, unit = (uint64_t)1 << extra;
  memcpy(&bits, &v, sizeof bits);
  bits += unit / 2 - 1 + (bits >> extra & 1); /* a carry into the exponent is correct */
  bits &= ~(unit - 1);
  memcpy(&v, &bits, sizeof v);
  return fabs(v) > t->largest ? copysign(INFINITY, v) : v;
}

static uint16_t bits_of_f16(double v)
{
  uint16_t sign = signbit(v) ? 0x8000 : 0;
  int exponent;
  if (isnan(v)) return 0x7e00;
  if (isinf(v)) return sign | 0x7c00;
  double fraction = frexp(fabs(v), &exponent); /* in [1/2, 1) */
  if (fabs(v) < 0x1p-14) return sign | (uint16_t)(fabs(v) * 0x1p24);
  return sign | (uint16_t)((uint16_t)(exponent + 14) << 10 | ((uint16_t)(fraction * 2048) & 1023));
}

uint16_t ct__ref_narrowed(ct_dtype_t type, double v)
{
  if (type == CT_F16) return bits_of_f16(rounded(&f16, v));
  if (isnan(v)) return 0x7fc0;
  float near = (float)rounded(&bf16, v);
  uint32_t wide;
  memcpy(&wide, &near, sizeof wide);
  return (uint16_t)(wide >> 16);
}
