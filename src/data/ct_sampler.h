/** \file ct_sampler.h  Which samples, in which order: pure functions.  Layer 2.
 *
 * The order of an epoch is a keyed permutation of [0, samples): a balanced Feistel network with
 * cycle-walking (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), keyed by
 * (seed, epoch).  It takes no memory and any position can be asked alone, so the union over ranks
 * is the same at every world size and a checkpoint stores one number: the cursor. */
#ifndef CT_SAMPLER_H
#define CT_SAMPLER_H
#include <stdint.h>

typedef struct ct_sampler {
  uint64_t seed;
  int64_t samples; /**< in the data set */
  int64_t batch;   /**< global batch */
  int shuffle;     /**< 0: in order */
  int pieces;      /**< pieces that each rank's share of a batch is cut into; 0: 1 */
} ct_sampler_t;

/** Steps of a whole epoch: ceil(samples / batch); the last one may be smaller. */
int64_t ct_sampler_steps(const ct_sampler_t *s);
/** Sample at a position of an epoch. */
int64_t ct_sampler_at(const ct_sampler_t *s, int64_t epoch, int64_t position);
/** Global samples of the step that begins at \a cursor (0 … samples-1): min(batch, what is
 * left). */
int64_t ct_sampler_batch(const ct_sampler_t *s, int64_t cursor);
/** \a total cut into \a n pieces: where the i-th begins, in *first, and how many it has (returned).
 * They follow each other and differ by at most one; the first ones are the larger. */
int64_t ct_sampler_cut(int64_t total, int i, int n, int64_t *first);
/** A rank's share of \a total: its neighbouring `pieces` of size * pieces. */
int64_t ct_sampler_share(const ct_sampler_t *s, int64_t total, int rank, int size, int64_t *first);

#endif
