/** \file ct_blocks.h  A random order of samples that reads each block of a file once.  Layer 2.
 * Pure functions of a constant table.
 *
 * To read one sample, its whole block (a chunk of compressed samples) is read.  In a fully random
 * order, blocks that do not fit into memory are therefore read again for each of their samples.
 * Here a global batch is divided into lanes, contiguous parts of it (ct_sampler_cut()),
 * independently of the number of ranks.  Each lane takes its samples from one block until all of
 * them are used, then from its next block.  The local batch of a rank consists of whole lanes, so
 * the rank keeps one block for each of its lanes and reads it once.
 *
 * All blocks are arranged on a line in random order: blocks of equal length are permuted among
 * themselves, and the line begins at a random block.  The samples of a block are in random order
 * too.  If each lane were an equal interval of the line, all lanes might reach the end of a block
 * in the same step.  So a lane begins with a part of a block, of a length that differs between
 * lanes, continues with whole blocks, and ends with a part; its neighbours use the rest of those
 * blocks in the same steps.  The permutations are those of the sampler (ct_sampler.h).
 *
 * Related work: CorgiPile (Xu et al., SIGMOD 2022) shows when training on block-wise shuffles
 * converges as on full ones; WebDataset and tf.data shuffle files and a buffer. */
#ifndef CT_BLOCKS_H
#define CT_BLOCKS_H
#include <stdint.h>

/** Samples [first, first + samples) are stored in blocks of \a rows samples; the last block may be
 * shorter. */
typedef struct ct_block_run {
  int64_t first, samples, rows;
} ct_block_run_t;

typedef struct ct_blocks ct_blocks_t;

/** Local.  Makes the table from \a n runs, which cover all samples from 0 in ascending order.
 * CT_ERR_NOMEM; CT_ERR_ARG: the runs are not contiguous, or a run has less than 1 row. */
int ct_blocks_make(const ct_block_run_t *runs, int n, ct_blocks_t **out);
/** Frees \a b, which may be NULL. */
void ct_blocks_free(ct_blocks_t *b);
/** Return the number of blocks, and the number of samples that most blocks have. */
int64_t ct_blocks_count(const ct_blocks_t *b);
int64_t ct_blocks_rows(const ct_blocks_t *b);
/** Returns the number of the block that contains a sample. */
int64_t ct_blocks_of(const ct_blocks_t *b, int64_t sample);
/** Returns a hash of the table. */
uint64_t ct_blocks_hash(const ct_blocks_t *b);
/** Returns the default number of lanes of a global batch: one lane for each sample in batches of up
 * to 64; in larger batches at least 64 lanes, with up to 8 samples each.  It is lower if a lane
 * would have less than four blocks, but not lower than 16 if the data has at least 16 blocks.  It
 * does not depend on the number of ranks. */
int64_t ct_blocks_lanes(const ct_blocks_t *b, int64_t batch);

#endif
