/** \file h5_cache.h  Cache of decoded blocks of samples, shared by threads. Internal.
 *
 * All memory is allocated when it is opened. One thread loads a block while others that want it
 * wait; the least recently used block is evicted. A thread holds at most one block at a time. */
#ifndef CT_H5_CACHE_H
#define CT_H5_CACHE_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct__h5_cache ct__h5_cache_t;

/** A block in use. */
typedef struct ct__h5_block {
  void *data;
  int slot;
  int load; /**< 1: not loaded; the holder must fill it and call ct__h5_cache_loaded() */
} ct__h5_block_t;

/** Opens a cache of \a slots blocks. CT_ERR_NOMEM */
int ct__h5_cache_open(size_t block_bytes, int64_t slots, ct__h5_cache_t **out);
/** Frees \a c, which may be NULL. */
void ct__h5_cache_close(ct__h5_cache_t *c);
/** Finds block \a key (>= 0), or evicts another block to make space for it, and holds it. */
ct__h5_block_t ct__h5_cache_hold(ct__h5_cache_t *c, int64_t key);
/** Marks the block as loaded; called by its holder. If \a ok is 0, loading has failed: the block is
 * released, and threads that wait for the block load it themselves. */
void ct__h5_cache_loaded(ct__h5_cache_t *c, const ct__h5_block_t *b, int ok);
/** Releases a loaded block. */
void ct__h5_cache_release(ct__h5_cache_t *c, const ct__h5_block_t *b);

#endif
