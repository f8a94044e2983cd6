/** \file h5_reader.h  The HDF5 data set reader: opening (h5_reader.c) and reading (h5_read.c).
 * Internal. */
#ifndef CT_H5_READER_H
#define CT_H5_READER_H
#include <pthread.h>
#include <stdatomic.h>

#include "hdf5io/read/h5_block.h"
#include "hdf5io/read/h5_cache.h"
#include "hdf5io/read/h5_files.h"
#include "hdf5io/read/h5_list.h"
#include "hdf5io/read/h5_retry.h"

enum {
  CT__H5_AT_ONCE = 1024, /**< samples sorted by file offset together */
  CT__H5_ASKED = 1024    /**< entries of the table of blocks already prefetched */
};

/* A requested sample and its destination. */
typedef struct ct__h5_pick {
  int64_t index; /* number in the data set */
  int shard;     /* index of the shard that contains it */
  int to;        /* position in the caller's buffer */
} ct__h5_pick_t;

/* Per-thread state during a read. */
typedef struct ct__h5_scratch {
  ct__h5_load_t load;
  ct__h5_pick_t picks[CT__H5_AT_ONCE];
  ct__h5_extent_t extents[CT__H5_AT_ONCE];
  struct ct__h5_scratch *next; /* free list */
} ct__h5_scratch_t;

struct ct_reader {
  ct_reader_info_t info;
  ct_reader_spec_t spec; /* only what describes arrays; owns the names and the shape */
  ct__h5_list_t shards;
  size_t sample_bytes;

  char *labels;            /* labels or targets of all shards; read on a shard's first use */
  size_t label_bytes;      /* per sample */
  atomic_char *has_labels; /* [shards] */
  int64_t **offsets; /* [shards], image files: start offsets; under HDF5's lock, read on a shard's
                        first use */

  ct__h5_cache_t *cache;
  ct__h5_scratch_t *scratch, *free_scratch;
  int nscratch;
  pthread_mutex_t lock; /* protects free_scratch */
  pthread_cond_t freed; /* signals that a scratch became free */

  ct__h5_files_t *files; /* under HDF5's lock; shared with readers of other arrays */
  int number;            /* of this reader in `files` */
  atomic_int change_logged;
  double retry_s;
  ct_cache_t *disk_cache;           /* borrowed; NULL: none */
  atomic_llong asked[CT__H5_ASKED]; /* blocks for which the system was asked to read ahead */
  atomic_int asks;
  atomic_char *gave_up; /* [shards] 1: the last read failed after all retries; the next read is
                           tried only once */
};

/** Returns this reader's array of an open file. */
static inline ct__h5_array_t *ct__h5_reader_own(const ct_reader_t *r, ct__h5_file_t *f)
{
  return &f->array[r->number];
}
/** Takes HDF5's lock and records the time spent waiting for it. */
void ct__h5_reader_lock(void);
/** Called without the lock. Makes the next use of a shard open its file again, because reading it
 * failed. */
void ct__h5_reader_abandon(ct_reader_t *r, int shard);
/** Returns the index of the shard that contains a sample: the last non-empty shard that starts at
 * or before it. */
int ct__h5_reader_shard(const ct_reader_t *r, int64_t index);
/** Returns 1 if samples are read directly to their destination, because caching gains nothing: the
 * shard does not fit into the cache, and needs no decoding. */
int ct__h5_reader_straight(const ct_reader_t *r, const ct__h5_shard_t *s);
/** Needs the lock. Opens a shard's file and its array of samples, unless they are open. */
int ct__h5_reader_array(ct_reader_t *r, int shard, ct__h5_file_t **file);
/** Called without the lock, after reading samples with result \a rc. Checks that the file has not
 * changed; if it has, the error for this replaces \a rc. Releases the file, which was held. */
int ct__h5_reader_check(ct_reader_t *r, const ct__h5_shard_t *s, ct__h5_file_t *f, int64_t first,
                        int64_t rows, int rc);
/** Called after a failed read. Returns 1 if the read is to be retried; the file is then opened
 * again. */
int ct__h5_reader_try_again(ct_reader_t *r, int shard, ct__h5_retry_t *retry, int rc);
void ct__h5_reader_succeeded(ct_reader_t *r, int shard, const ct__h5_retry_t *retry);
/** Takes a scratch from the free list; waits if the list is empty. */
ct__h5_scratch_t *ct__h5_reader_take(ct_reader_t *r);
void ct__h5_reader_give(ct_reader_t *r, ct__h5_scratch_t *w);
/** Sorts samples by file offset, so that each block is needed once and the disk is read
 * forwards. */
void ct__h5_reader_sort(ct__h5_pick_t *p, int n);
/** Entries of ct_reader_ops_t. */
void ct__h5_reader_ahead(ct_reader_t *r, int n, const int64_t index[]);
int ct__h5_reader_range(ct_reader_t *r, int64_t first, int64_t n, void *x);
int ct__h5_reader_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y);

#endif
