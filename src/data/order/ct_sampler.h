/** \file ct_sampler.h  Which samples, in which order: pure functions.  Layer 2.
 *
 * The order of an epoch is a keyed permutation of [0, samples): a balanced Feistel network with
 * cycle-walking (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), keyed by
 * (seed, epoch).  It takes no memory and any position can be asked alone, so the union over ranks
 * is the same at every world size and a checkpoint stores one number: the cursor. */
#ifndef CT_SAMPLER_H
#define CT_SAMPLER_H
#include <stdint.h>

#include "data/order/ct_blocks.h"

typedef struct ct_sampler {
  uint64_t seed;
  int64_t samples;           /**< in the data set */
  int64_t batch;             /**< global batch */
  int drop_last;             /**< 1: an epoch ends with its last whole batch */
  int shuffle;               /**< 0: in order */
  int pieces;                /**< pieces that each rank's share of a batch is cut into; 0: 1 */
  const ct_blocks_t *blocks; /**< with shuffle: of all samples, each read once (ct_blocks.h), in an
                                order that depends on the batch, too; borrowed; NULL: the full
                                permutation */
  int64_t lanes; /**< with blocks: that many are taken from at a time; up to the batch */
} ct_sampler_t;

/** Samples of an epoch: all, or with drop_last those of whole batches. */
int64_t ct_sampler_epoch(const ct_sampler_t *s);
/** Steps of a whole epoch: ceil(samples / batch); the last one may be smaller. */
int64_t ct_sampler_steps(const ct_sampler_t *s);
/** Sample at a position of an epoch. */
int64_t ct_sampler_at(const ct_sampler_t *s, int64_t epoch, int64_t position);
/** Another sample for the one at a position, in place of \a drawn, which was drawn from all: with
 * blocks one of the same batch, of one of 8 lanes around it, so that no block is read for it. */
int64_t ct_sampler_near(const ct_sampler_t *s, int64_t epoch, int64_t position, int64_t drawn);
/** How well an order mixes the blocks \a b, which may be the sampler's: the mean over up to
 * \a steps batches, spread over the epoch, of how many samples of the batch lie in the block of one
 * of them, itself counted.  1 is best: all lie in different ones; it is the factor by which the
 * noise of a batch's mean is larger if all samples of a block are alike (the design effect of a
 * cluster sample; Kish, "Survey Sampling", 1965).  Local.  CT_ERR_NOMEM */
int ct_sampler_mixing(const ct_sampler_t *s, const ct_blocks_t *b, int64_t epoch, int steps,
                      double *mates);
/** Global samples of the step that begins at \a cursor (0 … end of the epoch): min(batch, what is
 * left). */
int64_t ct_sampler_batch(const ct_sampler_t *s, int64_t cursor);
/** \a total cut into \a n pieces: where the i-th begins, in *first, and how many it has (returned).
 * They follow each other and differ by at most one; the first ones are the larger. */
int64_t ct_sampler_cut(int64_t total, int i, int n, int64_t *first);
/** A rank's share of \a total: its neighbouring `pieces` of size * pieces. */
int64_t ct_sampler_share(const ct_sampler_t *s, int64_t total, int rank, int size, int64_t *first);

#endif
