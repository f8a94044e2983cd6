/* Draws 64 bits, uniform numbers and normal numbers, each from one call of Philox. */
#include "base/ct_rng.h"

#include <math.h>

uint64_t ct_rng_u64(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index)
{
  uint32_t r[4];
  ct_rng_block(seed, use, sub, index, r);
  return (uint64_t)r[1] << 32 | r[0];
}

float ct_rng_uniform(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index)
{
  uint32_t r[4];
  ct_rng_block(seed, use, sub, index, r);
  return (float)(r[0] >> 8) * 0x1p-24f;
}

float ct_rng_normal(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index)
{
  uint32_t r[4];
  ct_rng_block(seed, use, sub, index, r);
  double radius_u = ((double)r[0] + 1) * 0x1p-32; /* in (0, 1]: its logarithm exists */
  double angle = 2 * M_PI * ((double)r[1] * 0x1p-32);
  return (float)(sqrt(-2 * log(radius_u)) * cos(angle));
}
