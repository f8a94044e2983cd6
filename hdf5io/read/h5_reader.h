/** \file h5_reader.h  The reader of HDF5 data sets, opened (h5_reader.c) and read (h5_read.c).
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
  CT__H5_AT_ONCE = 1024, /**< samples sorted by place together */
  CT__H5_ASKED = 1024    /**< blocks that are remembered to have been asked for */
};

/* A wanted sample and where it is to go. */
typedef struct ct__h5_pick {
  int64_t index; /* number in the data set */
  int shard, to;
} ct__h5_pick_t;

/* What one thread needs during a read. */
typedef struct ct__h5_work {
  ct__h5_load_t load;
  ct__h5_pick_t picks[CT__H5_AT_ONCE];
  ct__h5_place_t places[CT__H5_AT_ONCE];
  struct ct__h5_work *next; /* free ones */
} ct__h5_work_t;

struct ct_reader {
  ct_reader_info_t info;
  char *input, *target;
  ct__h5_list_t shards;
  size_t sample_bytes;

  char *labels;            /* or targets, of all shards; read with a shard's first use */
  size_t label_bytes;      /* of one sample */
  atomic_char *has_labels; /* [shards] */
  int64_t **offsets; /* [shards], of image files: where each begins; under HDF5's lock, read with a
                        shard's first use */

  ct__h5_cache_t *cache;
  ct__h5_work_t *works, *free_works;
  int nworks;
  pthread_mutex_t lock;  /* of free_works */
  pthread_cond_t worked; /* one became free */

  ct__h5_files_t files; /* under HDF5's lock */
  atomic_int told_of_change;
  double retry_s;
  ct_cache_t *disk_cache;           /* borrowed; NULL: none */
  atomic_llong asked[CT__H5_ASKED]; /* blocks that the system was asked to read ahead */
  atomic_int asks;
  atomic_char *gave_up; /* [shards] 1: the last reading failed to the end, the next is tried once */
};

/** HDF5's lock; waiting for it is accounted for. */
void ct__h5_reader_lock(void);
/** Without the lock.  The file of a shard, which could not be read, is opened anew when it is
 * wanted next. */
void ct__h5_reader_abandon(ct_reader_t *r, int shard);
/** The shard that holds a sample: the last that begins at it or before, of those that are not
 * empty. */
int ct__h5_reader_shard(const ct_reader_t *r, int64_t index);
/** 1: samples of it are read to where they are wanted.  Nothing is gained by a place in memory:
 * they do not fit, and need no decoding. */
int ct__h5_reader_straight(const ct_reader_t *r, const ct__h5_shard_t *s);
/** With the lock.  The file of a shard, with its array of samples opened. */
int ct__h5_reader_array(ct_reader_t *r, int shard, ct__h5_file_t **file);
/** Without the lock, after samples were read, whether that failed or not (\a rc): is the file as it
 * was?  If it is not that is the better reason.  Releases the file, which was held. */
int ct__h5_reader_check(ct_reader_t *r, const ct__h5_shard_t *s, ct__h5_file_t *f, int64_t first,
                        int64_t rows, int rc);
/** After a reading failed: whether it is to be tried again, of a file that is then opened anew. */
int ct__h5_reader_try_again(ct_reader_t *r, int shard, ct__h5_retry_t *retry, int rc);
void ct__h5_reader_succeeded(ct_reader_t *r, int shard, const ct__h5_retry_t *retry);
/** What a thread works with; waits for one. */
ct__h5_work_t *ct__h5_reader_take(ct_reader_t *r);
void ct__h5_reader_give(ct_reader_t *r, ct__h5_work_t *w);
/** By place: each block is then needed once, and the disk is read forwards. */
void ct__h5_reader_sort(ct__h5_pick_t *p, int n);
/** As ct_reader_ops_t says, as the next. */
void ct__h5_reader_ahead(ct_reader_t *r, int n, const int64_t index[]);
int ct__h5_reader_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y);

#endif
