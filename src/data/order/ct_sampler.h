/** \file ct_sampler.h  The order of samples.  Layer 2.  Pure functions.
 *
 * The order of an epoch is a keyed permutation of [0, samples): a balanced Feistel network with
 * cycle-walking (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), keyed by
 * (seed, epoch).  It takes no memory, and the sample at any position can be computed by itself.  So
 * the samples of a step are the same at any number of ranks, and a checkpoint stores one number:
 * the cursor. */
#ifndef CT_SAMPLER_H
#define CT_SAMPLER_H
#include <stdint.h>

#include "data/order/ct_blocks.h"

typedef struct ct_sampler {
  uint64_t seed;
  int64_t samples;           /**< in the data set */
  int64_t batch;             /**< global batch */
  int drop_last;             /**< 1: an epoch ends with its last full batch */
  int shuffle;               /**< 0: in order */
  int64_t group;             /**< local batches are whole groups of so many samples, but for the
                                last group of an epoch; the batch is a multiple of it; 0: 1 */
  int micro_batches;         /**< micro-batches in the local batch of each rank; 0: 1 */
  const ct_blocks_t *blocks; /**< with shuffle: the blocks of all samples, each of which is read
                                once (ct_blocks.h); the order then depends on the batch size too;
                                borrowed; NULL: full permutation */
  int64_t lanes;             /**< with blocks: number of lanes, at most the batch */
} ct_sampler_t;

/** Returns the samples of an epoch: all, or with drop_last those in full batches. */
int64_t ct_sampler_epoch(const ct_sampler_t *s);
/** Returns the steps of an epoch: ceil(samples / batch); the last batch may be smaller. */
int64_t ct_sampler_steps(const ct_sampler_t *s);
/** Returns the number of the sample at a position of an epoch. */
int64_t ct_sampler_at(const ct_sampler_t *s, int64_t epoch, int64_t position);
/** Replaces \a drawn, a sample drawn from all, as the partner of the sample at a position.  With
 * blocks it returns a sample of the same batch from one of the 8 lanes around the position, so no
 * extra block is read; otherwise \a drawn. */
int64_t ct_sampler_near(const ct_sampler_t *s, int64_t epoch, int64_t position, int64_t drawn);
/** Local.  Measures how well an order mixes the blocks \a b, which may be the sampler's.  *mates is
 * the mean number of samples of a batch that share the block of a given sample, itself included,
 * over up to \a steps batches spread over the epoch. 1 is best: all come from different blocks.  It
 * is the factor by which the variance of a batch's mean grows if all samples of a block are
 * identical (the design effect of a cluster sample; Kish, "Survey Sampling", 1965).
 * CT_ERR_NOMEM */
int ct_sampler_mixing(const ct_sampler_t *s, const ct_blocks_t *b, int64_t epoch, int steps,
                      double *mates);
/** Returns the number of samples on all ranks in the step that begins at \a cursor (0 … end of the
 * epoch): min(batch, samples left). */
int64_t ct_sampler_batch(const ct_sampler_t *s, int64_t cursor);
/** Divides \a total into \a n contiguous parts whose sizes differ by at most one, larger ones
 * first.  Returns the size of part i; *first is the position where part i begins. */
int64_t ct_sampler_cut(int64_t total, int i, int n, int64_t *first);
/** Computes the local batch of a rank: \a total samples are divided into size * micro_batches
 * micro-batches, of which each rank gets `micro_batches` consecutive ones.  Returns the size of the
 * local batch; *first is the position of its first sample. */
int64_t ct_sampler_local_batch(const ct_sampler_t *s, int64_t total, int rank, int size,
                               int64_t *first);

#endif
