/** \file h5_cache.h  Blocks of decoded samples in memory, shared by threads.  Internal.
 *
 * All memory is taken at the opening.  A block is loaded by one thread while others that want it
 * wait; the least recently used one gives its place.  A thread holds at most one block at a
 * time. */
#ifndef CT_H5_CACHE_H
#define CT_H5_CACHE_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct__h5_cache ct__h5_cache_t;

/** A block in use. */
typedef struct ct__h5_block {
  void *data;
  int slot;
  int load; /**< 1: not there yet; the holder must fill it and call ct__h5_cache_loaded() */
} ct__h5_block_t;

/** CT_ERR_NOMEM */
int ct__h5_cache_open(size_t block_bytes, int64_t slots, ct__h5_cache_t **out);
/** NULL is fine. */
void ct__h5_cache_close(ct__h5_cache_t *c);
/** Finds block \a key (>= 0) or makes room for it, and holds it. */
ct__h5_block_t ct__h5_cache_hold(ct__h5_cache_t *c, int64_t key);
/** The holder has filled it, or \a ok is 0: then it is let go, and whoever waits for it tries
 * himself. */
void ct__h5_cache_loaded(ct__h5_cache_t *c, const ct__h5_block_t *b, int ok);
/** Ends the use of a block that is there. */
void ct__h5_cache_release(ct__h5_cache_t *c, const ct__h5_block_t *b);

#endif
