/** \file cache.h  The opened cache.  Internal. */
#ifndef CT_DATA_CACHE_H
#define CT_DATA_CACHE_H
#include <pthread.h>
#include <stdatomic.h>

#include "data/local/ct_cache.h"
#include "data/local/node_dir.h"

#define CT__CACHE_CURE "name another directory in data.stage, or unset it"

/** A buffer of one block. */
typedef struct ct__piece {
  struct ct__piece *next; /**< in the list of free ones */
  char bytes[CT_CACHE_PIECE];
} ct__piece_t;

struct ct_cache {
  ct__node_dir_t at;
  const char *key; /**< in the configuration */
  int staged, keep;
  int64_t spare;        /**< bytes of the disk that are left free */
  pthread_mutex_t lock; /**< of free */
  ct__piece_t *free;
  atomic_int full;     /**< 1: nothing is written any more */
  atomic_int logged;   /**< 1: the warning was logged */
  atomic_llong missed; /**< bytes read from the data files */
  atomic_llong found;  /**< bytes read from the cache */
};

/** Logs the one warning of a process: \a path, and \a why it does not serve. */
void ct__cache_warn(ct_cache_t *c, const char *path, const char *why);
/** Returns a buffer, to be given back by ct__cache_give(); NULL: out of memory. */
ct__piece_t *ct__cache_take(ct_cache_t *c);
void ct__cache_give(ct_cache_t *c, ct__piece_t *p);

/** Opens a file as ct_cache_file_open() does, but returns errors.  CT_ERR_IO, CT_ERR_NOMEM */
int ct__cache_file_open(ct_cache_t *c, const char *path, int64_t bytes, int64_t mtime_ns,
                        ct_cache_file_t **out);
/** Copies one block of \a fd, the opened data file, into the cache and verifies it, unless the
 * cache holds a valid copy; adds the bytes it copied to *copied.  CT_ERR_IO */
int ct__cache_fill(ct_cache_file_t *f, int64_t piece, int fd, const char *path, int64_t *copied);

#endif
