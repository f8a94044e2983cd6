/** \file ct_rng.h  Counter-based random numbers: no state, so nothing to save or to share.
 * Layer 0.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11) from the
 * Random123 library.  A number is a pure function of (seed, stream, index): the same at any rank or
 * thread count. */
#ifndef CT_RNG_H
#define CT_RNG_H
#include <stdint.h>

/** What a stream is for; never reuse a number for another purpose. */
typedef enum {
  CT_RNG_INIT = 1, /**< weights: index = element; \a sub = parameter */
  CT_RNG_ORDER,    /**< sampler keys: \a sub = epoch */
  CT_RNG_DROPOUT,  /**< \a sub = layer */
  CT_RNG_DATA,     /**< synthetic samples */
  CT_RNG_FAULT,    /**< fault points */
  CT_RNG_TEST,
  CT_RNG_TRANSFORM, /**< augmentation: key of (seed, position in the list, epoch), then index =
                      sample */
  CT_RNG_SIM,       /**< noise of simulated times: \a sub = 0, index = op that was run */
  CT_RNG_SWEEP      /**< random settings: \a sub = the setting, index = the draw */
} ct_rng_use_t;

/** Four 32-bit numbers for (seed, use, sub, index): Philox with the key {seed low, seed high} and
 * the counter {index low, index high, sub, use}. */
void ct_rng_block(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index, uint32_t out[4]);
/** 64 bits. */
uint64_t ct_rng_u64(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);
/** Uniform in [0, 1), 24 bits. */
float ct_rng_uniform(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);
/** Standard normal (Box-Muller). */
float ct_rng_normal(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);

#endif
