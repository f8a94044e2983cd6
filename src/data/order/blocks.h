/** \file blocks.h  The random order of blocks in an epoch (ct_blocks.h).  Internal to data. */
#ifndef CT_DATA_BLOCKS_H
#define CT_DATA_BLOCKS_H
#include "data/order/ct_blocks.h"
#include "data/order/ct_sampler.h"

/** Hot.  Returns the image of \a value under the permutation of [0, n) given by \a key and
 * \a epoch. */
int64_t ct__permute(uint64_t key, int64_t epoch, int64_t n, int64_t value);

/** Hot.  Returns the sample at position \a place on the line of an epoch (ct_blocks.h). */
int64_t ct__blocks_at(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place);
/** Hot.  Returns the position where the block begins that contains \a place; if \a up is 1, the
 * first position at or after \a place where a block begins. */
int64_t ct__blocks_edge(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place, int up);
/** Returns the number of samples of the longest block. */
int64_t ct__blocks_most(const ct_blocks_t *b);

/** Returns the number of lanes of a sampler with blocks. */
int64_t ct__lanes_of(const ct_sampler_t *s);
/** Hot.  Implements ct_sampler_at() for a sampler with blocks. */
int64_t ct__lanes_at(const ct_sampler_t *s, int64_t epoch, int64_t position);

#endif
