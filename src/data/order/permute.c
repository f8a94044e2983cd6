/* A keyed permutation of [0, n), computed without memory. */
#include "base/ct_rng.h"
#include "data/order/blocks.h"

/* Four rounds of a random function make a Feistel network pseudorandom (Luby and Rackoff, 1988);
 * the additional rounds are for the small halves of small data sets. */
enum { ROUNDS = 8, MIN_HALF_BITS = 3 };

/* Bits of half a number: the network permutes [0, 4^bits), the smallest power of 4 that is
 * at least n. */
static int half_bits(int64_t n)
{
  int bits = MIN_HALF_BITS;
  while (bits < 31 && ((int64_t)1 << (2 * bits)) < n)
    bits++;
  return ((int64_t)1 << (2 * bits)) < n ? 32 : bits;
}

static uint64_t permute(uint64_t seed, int64_t epoch, int bits, uint64_t value)
{
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  uint64_t left = value >> bits, right = value & mask;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t f = ct_rng_u64(seed, CT_RNG_ORDER, (uint32_t)epoch, round << 32 | right);
    uint64_t mixed = left ^ (f & mask);
    left = right;
    right = mixed;
  }
  return left << bits | right;
}

int64_t ct__permute(uint64_t key, int64_t epoch, int64_t n, int64_t value)
{
  int bits = half_bits(n);
  uint64_t at = (uint64_t)value;
  if (n < 2) return value;
  /* Cycle-walking: a permutation leads from any number below n back below n. */
  do
    at = permute(key, epoch, bits, at);
  while (at >= (uint64_t)n);
  return (int64_t)at;
}
