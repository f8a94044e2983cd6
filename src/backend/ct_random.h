/** \file ct_random.h  The numbers of CT_OP_RANDOM, identical in all backends.  Layer 1.
 *
 * A number is a pure function of (seed of the run, global step, layer, index of the sample in the
 * global batch, element of the sample), as the mask of dropout (ct_dropout.h), whose seeds and
 * indices it uses. */
#ifndef CT_RANDOM_H
#define CT_RANDOM_H
#include <math.h>

#include "backend/ct_dropout.h"
#include "backend/ct_op.h"

/** Constants of one run of the op. */
typedef struct ct_random_draw {
  ct_random_t kind;
  uint64_t seed;
  uint32_t layer;
  uint32_t ones; /**< BERNOULLI: an element is 1 if its 24-bit random number is below this */
} ct_random_draw_t;

CT_INLINE ct_random_draw_t ct_random_make(uint64_t seed, int64_t step, uint32_t layer,
                                          ct_random_t kind, double p)
{
  ct_random_draw_t d;
  d.kind = kind;
  d.seed = ct_dropout_seed(seed, step);
  d.layer = layer;
  d.ones = (uint32_t)(p * 0x1p24 + 0.5);
  return d;
}

/** Computes two numbers of the normal distribution from two random numbers (Box-Muller). */
CT_INLINE void ct_random_pair(const uint32_t r[2], float out[2])
{
  float u = ((float)(r[0] >> 8) + 1) * 0x1p-24f; /* in (0, 1]: its logarithm exists */
  float radius = sqrtf(-2 * logf(u)), angle = (float)(r[1] >> 8) * (0x1p-24f * 6.28318531f);
  out[0] = radius * cosf(angle);
  out[1] = radius * sinf(angle);
}

/** Computes elements 4 * \a block … 4 * \a block + 3 of the sample with index \a position in the
 * global batch. */
CT_INLINE void ct_random_values(const ct_random_draw_t *d, int64_t position, int64_t block,
                                float out[CT_DROPOUT_BLOCK])
{
  uint32_t r[CT_DROPOUT_BLOCK];
  ct_rng_block(d->seed, CT_RNG_DROPOUT, d->layer, ct_dropout_index(position, block), r);
  if (d->kind == CT_RANDOM_NORMAL) {
    ct_random_pair(r, out);
    ct_random_pair(r + 2, out + 2);
    return;
  }
  for (int k = 0; k < CT_DROPOUT_BLOCK; k++)
    out[k] = d->kind == CT_RANDOM_UNIFORM ? (float)(r[k] >> 8) * 0x1p-24f : r[k] >> 8 < d->ones;
}

#endif
