/** \file ct_blocks.h  An order of samples that reads each block of a file once.  Layer 2.  Pure
 * functions of a table that does not change.
 *
 * In random order a sample costs the reading of its whole block, a chunk of compressed samples, and
 * blocks that do not fit into memory are read again for each of theirs.  Here a global batch is
 * dealt to lanes, neighbouring parts of it (ct_sampler_cut()), whatever the number of ranks; each
 * lane takes its samples from one block until that is used up, then from its next one.  So a rank,
 * whose share of a batch are whole lanes, keeps one block for each of them and reads it once.
 *
 * All blocks stand one behind the other on a line, in random order (those of equal length are
 * permuted among themselves, and the line begins at a random block), each with its samples in
 * random order.  Were each lane a stretch of the line, all of them might come to the end of a block
 * in the same step.  So a lane begins with a part of a block, of a length of its own, goes on with
 * whole ones, and ends with a part; the rest of those blocks belongs to its neighbours, in the same
 * steps.  A permutation of few numbers is the sampler's (ct_sampler.h).
 *
 * Block-wise shuffles are what others do, too: CorgiPile (Xu et al., SIGMOD 2022) says when
 * training converges as with a full one; WebDataset and tf.data shuffle files and a buffer. */
#ifndef CT_BLOCKS_H
#define CT_BLOCKS_H
#include <stdint.h>

/** Samples [first, first + samples) lie in blocks of \a rows of them; the last may be shorter. */
typedef struct ct_block_run {
  int64_t first, samples, rows;
} ct_block_run_t;

typedef struct ct_blocks ct_blocks_t;

/** Local.  Of all samples, from 0 on, in the order of their numbers.  CT_ERR_NOMEM; CT_ERR_ARG:
 * they do not follow each other, or have no rows. */
int ct_blocks_make(const ct_block_run_t *runs, int n, ct_blocks_t **out);
/** NULL is fine. */
void ct_blocks_free(ct_blocks_t *b);
/** How many blocks, and samples of most of them. */
int64_t ct_blocks_count(const ct_blocks_t *b);
int64_t ct_blocks_rows(const ct_blocks_t *b);
/** The number of the block that a sample lies in: the same for all of them, else another. */
int64_t ct_blocks_of(const ct_blocks_t *b, int64_t sample);
/** A number that tells one table from others. */
uint64_t ct_blocks_hash(const ct_blocks_t *b);
/** How many lanes a global batch is dealt to if nobody says it: as many as a batch has samples, up
 * to 64, for larger ones at least 64, with up to 8 samples each; fewer if lanes would have less
 * than four blocks, but 16 if there are so many blocks.  No function of the ranks. */
int64_t ct_blocks_lanes(const ct_blocks_t *b, int64_t batch);

#endif
