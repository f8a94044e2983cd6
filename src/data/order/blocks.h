/** \file blocks.h  The line of blocks in the order of an epoch.  Internal to data. */
#ifndef CT_DATA_BLOCKS_H
#define CT_DATA_BLOCKS_H
#include "data/order/ct_blocks.h"
#include "data/order/ct_sampler.h"

/** Hot.  A permutation of [0, n) by \a key and epoch: where \a value goes. */
int64_t ct__permute(uint64_t key, int64_t epoch, int64_t n, int64_t value);

/** Hot.  The sample at a place of the line of an epoch. */
int64_t ct__blocks_at(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place);
/** Hot.  The place where the block begins that \a place lies in, or with \a up the first one from
 * there on that begins a block. */
int64_t ct__blocks_edge(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place, int up);
/** Samples of the longest block. */
int64_t ct__blocks_most(const ct_blocks_t *b);

/** Lanes of a sampler with blocks. */
int64_t ct__lanes_of(const ct_sampler_t *s);
/** Hot.  ct_sampler_at() of a sampler with blocks. */
int64_t ct__lanes_at(const ct_sampler_t *s, int64_t epoch, int64_t position);

#endif
