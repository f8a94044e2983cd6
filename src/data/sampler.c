/* Which samples a step has: pure functions of a position, so that nothing is shuffled in memory, no
 * rank asks another, and a run goes on anywhere with any number of ranks. */
#include "data/ct_sampler.h"

#include "base/ct_rng.h"

/* Four rounds of a random function make a Feistel network look random (Luby and Rackoff, 1988); the
 * rest is for the small halves of small data sets. */
enum { ROUNDS = 8, MIN_HALF_BITS = 3 };

/* Bits of half a number: the network permutes [0, 4^bits), the least such power that holds n. */
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

int64_t ct_sampler_steps(const ct_sampler_t *s)
{
  return s->samples / s->batch + (s->samples % s->batch != 0);
}

int64_t ct_sampler_at(const ct_sampler_t *s, int64_t epoch, int64_t position)
{
  if (!s->shuffle) return position;
  int bits = half_bits(s->samples);
  uint64_t value = (uint64_t)position;
  /* Cycle-walking: a permutation leads from any number below n back below n. */
  do
    value = permute(s->seed, epoch, bits, value);
  while (value >= (uint64_t)s->samples);
  return (int64_t)value;
}

int64_t ct_sampler_batch(const ct_sampler_t *s, int64_t cursor)
{
  int64_t left = s->samples - cursor;
  return left < s->batch ? left : s->batch;
}

int64_t ct_sampler_cut(int64_t total, int i, int n, int64_t *first)
{
  int64_t each = total / n, extra = total % n;
  *first = each * i + (i < extra ? i : extra);
  return each + (i < extra);
}

int64_t ct_sampler_share(const ct_sampler_t *s, int64_t total, int rank, int size, int64_t *first)
{
  int pieces = s->pieces > 0 ? s->pieces : 1;
  int64_t end, n = ct_sampler_cut(total, (rank + 1) * pieces - 1, size * pieces, &end);
  end += n;
  ct_sampler_cut(total, rank * pieces, size * pieces, first);
  return end - *first;
}
