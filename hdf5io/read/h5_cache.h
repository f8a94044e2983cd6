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

/** CT_ERR_NOMEM */
int ct__h5_cache_open(size_t block_bytes, int64_t slots, ct__h5_cache_t **out);
/** NULL is allowed. */
void ct__h5_cache_close(ct__h5_cache_t *c);
/** Finds block \a key (>= 0), or evicts another to make space for it, and holds it. */
ct__h5_block_t ct__h5_cache_hold(ct__h5_cache_t *c, int64_t key);
/** The holder has filled the block. With \a ok 0 loading failed: the block is released, and threads
 * that wait for it load it themselves. */
void ct__h5_cache_loaded(ct__h5_cache_t *c, const ct__h5_block_t *b, int ok);
/** Releases a loaded block. */
void ct__h5_cache_release(ct__h5_cache_t *c, const ct__h5_block_t *b);

#endif
