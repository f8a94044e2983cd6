/** \file ct_dropout.h  The dropout mask, identical in all backends.  Layer 1.
 *
 * The mask is a pure function of (seed of the run, global step, layer, index of the sample in the
 * global batch, element of the sample).  It does not depend on rank, batch size or layout.  So the
 * backward pass recomputes it, and results do not depend on the number of ranks.
 *
 * Each group of four consecutive elements of the plain layout takes its four random numbers from
 * one block of the Philox generator:
 *
 *     seed'  = mix(mix(seed) + step)               64 bits, once per run of the op
 *     index  = position << 32 | element / 4        unique within a step
 *     number = ct_rng_block(seed', CT_RNG_DROPOUT, layer, index)[element % 4]
 *     kept   = number / 256 >= p * 2^24            24 bits, as in ct_rng_uniform()
 *
 * mix is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014).  Working in blocks costs one call and no branch for four elements. */
#ifndef CT_DROPOUT_H
#define CT_DROPOUT_H
#include "base/ct_rng.h"
#include "base/ct_types.h"

#define CT_DROPOUT_BLOCK 4 /**< elements per block */

/** Constants of one run of the op. */
typedef struct ct_dropout {
  uint64_t seed;
  uint32_t layer;
  uint32_t drop; /**< an element is dropped if its 24-bit random number is below this */
  float factor;  /**< factor of kept elements: 1 / (1 - p) */
} ct_dropout_t;

CT_INLINE uint64_t ct_dropout_mix(uint64_t z)
{
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/** Returns the Philox seed of a step. */
CT_INLINE uint64_t ct_dropout_seed(uint64_t seed, int64_t step)
{
  return ct_dropout_mix(ct_dropout_mix(seed) + (uint64_t)step);
}

/** Returns the constants.  \a p: the probability to drop an element, in [0, 1]; with 1 all elements
 * are dropped. */
CT_INLINE ct_dropout_t ct_dropout_make(uint64_t seed, int64_t step, uint32_t layer, double p)
{
  ct_dropout_t d;
  d.seed = ct_dropout_seed(seed, step);
  d.layer = layer;
  d.drop = (uint32_t)(p * 0x1p24 + 0.5);
  d.factor = p < 1 ? (float)(1 / (1 - p)) : 0;
  return d;
}

/** Returns the Philox index of a block; \a position: index of the sample in the global batch. */
CT_INLINE uint64_t ct_dropout_index(int64_t position, int64_t block)
{
  return (uint64_t)position << 32 | (uint64_t)block;
}

/** Returns the factor of an element with this random number: 0 (dropped) or d->factor. */
CT_INLINE float ct_dropout_factor(const ct_dropout_t *d, uint32_t number)
{
  return number >> 8 >= d->drop ? d->factor : 0;
}

/** Computes the factors of elements 4 * \a block … 4 * \a block + 3 of the sample with index
 * \a position in the global batch. */
CT_INLINE void ct_dropout_factors(const ct_dropout_t *d, int64_t position, int64_t block,
                                  float out[CT_DROPOUT_BLOCK])
{
  uint32_t r[CT_DROPOUT_BLOCK];
  ct_rng_block(d->seed, CT_RNG_DROPOUT, d->layer, ct_dropout_index(position, block), r);
  for (int k = 0; k < CT_DROPOUT_BLOCK; k++)
    out[k] = ct_dropout_factor(d, r[k]);
}

#endif
