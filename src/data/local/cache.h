/** \file cache.h  The opened cache.  Internal. */
#ifndef CT_DATA_CACHE_H
#define CT_DATA_CACHE_H
#include <pthread.h>
#include <stdatomic.h>

#include "data/local/ct_cache.h"
#include "data/local/node_dir.h"

/** Room for a piece. */
typedef struct ct__piece {
  struct ct__piece *next; /**< free ones */
  char bytes[CT_CACHE_PIECE];
} ct__piece_t;

struct ct_cache {
  ct__node_dir_t at;
  int keep;
  pthread_mutex_t lock; /**< of free */
  ct__piece_t *free;
  atomic_int full; /**< 1: nothing is written any more */
  atomic_int told; /**< 1: the warning was given */
  atomic_llong missed, found;
};

/** The one warning, about what \a path does with a text of \a why. */
void ct__cache_warn(ct_cache_t *c, const char *path, const char *why);
/** Room for a piece, to be given back; NULL: there is no memory. */
ct__piece_t *ct__cache_take(ct_cache_t *c);
void ct__cache_give(ct_cache_t *c, ct__piece_t *p);

#endif
