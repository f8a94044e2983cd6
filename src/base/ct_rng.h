/** \file ct_rng.h  Counter-based random numbers: no state, so nothing to save or to share.
 * Layer 0.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).  A number is
 * a pure function of (seed, stream, index): it is identical on any number of ranks and threads, on
 * CPUs and on GPUs. */
#ifndef CT_RNG_H
#define CT_RNG_H
#include "base/ct_types.h"

/** Purpose of a stream; never reuse a number for another purpose. */
typedef enum {
  CT_RNG_INIT = 1, /**< weights: index = element; \a sub = parameter */
  CT_RNG_ORDER,    /**< sampler keys: \a sub = epoch */
  CT_RNG_DROPOUT,  /**< \a sub = layer */
  CT_RNG_DATA,     /**< synthetic samples */
  CT_RNG_FAULT,    /**< fault points */
  CT_RNG_TEST,
  CT_RNG_TRANSFORM, /**< augmentation: key of (seed, position in the list, epoch), then index =
                      sample */
  CT_RNG_SIM,       /**< noise of simulated times: \a sub = 0, index = number of the simulated op */
  CT_RNG_SWEEP,     /**< random settings: \a sub = the setting, index = the draw */
  CT_RNG_GENERATE   /**< tokens: \a sub = the sequence, index = the place */
} ct_rng_use_t;

/** Computes four 32-bit numbers for (seed, use, sub, index): Philox with the key {low half of seed,
 * high half of seed} and the counter {low half of index, high half of index, sub, use}.  Inline and
 * without branches, so that loops over indices are vectorized. */
CT_INLINE void ct_rng_block(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index,
                            uint32_t out[4])
{
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), sub, (uint32_t)use};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1];
    c[3] = (uint32_t)a;
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  for (int i = 0; i < 4; i++)
    out[i] = c[i];
}
/** Returns 64 random bits. */
uint64_t ct_rng_u64(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);
/** Returns a number that is uniform in [0, 1), with 24 random bits. */
float ct_rng_uniform(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);
/** Returns a number from the standard normal distribution (Box-Muller). */
float ct_rng_normal(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index);

#endif
