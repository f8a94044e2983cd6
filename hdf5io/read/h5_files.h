/** \file h5_files.h  The opened files of a data set.  Internal.  Called with HDF5's lock.
 *
 * A file is opened when something of it is wanted first, and stays open: on parallel file systems
 * an opening is what costs.  Only if there are very many shards the one whose use is the longest
 * ago is closed. */
#ifndef CT_H5_FILES_H
#define CT_H5_FILES_H
#include <stdatomic.h>

#include "hdf5io/read/h5_array.h"

enum { CT__H5_FILES_OPEN = 256 }; /**< at once; HDF5 takes 0.6 MB for each */

typedef struct ct__h5_file {
  int shard; /**< -1: none */
  hid_t file;
  ct__h5_array_t array; /**< of samples; not opened yet: the caller's to do */
  uint64_t used;        /**< the time of its last use */
  atomic_int held;      /**< threads that read it by its descriptor, without the lock */
  int abandoned;        /**< 1: nobody gets it any more, it is closed when nobody holds it */
} ct__h5_file_t;

/** {0}: not made yet. */
typedef struct ct__h5_files {
  ct__h5_file_t *v;
  int n;    /**< places: one for each open file, and for each that threads may hold beside them */
  int most; /**< open files */
  uint64_t time;
} ct__h5_files_t;

/** For so many shards, read by so many threads.  CT_ERR_NOMEM */
int ct__h5_files_make(ct__h5_files_t *f, int shards, int threads);
/** The opened file of a shard, borrowed until the next call, or until it is released if it is held
 * before that.  As ct__h5_open(). */
int ct__h5_files_open(ct__h5_files_t *f, int shard, const char *path, ct__h5_file_t **out);
/** It stays open.  A thread holds one at a time. */
void ct__h5_file_hold(ct__h5_file_t *f);
/** Called without the lock. */
void ct__h5_file_release(ct__h5_file_t *f);
/** Whoever wants the file of a shard from now on opens it anew: it could not be read. */
void ct__h5_files_abandon(ct__h5_files_t *f, int shard);
/** Closes the file of a shard, if it is open.  Nobody holds it. */
void ct__h5_files_shut(ct__h5_files_t *f, int shard);
/** Closes all. */
void ct__h5_files_clear(ct__h5_files_t *f);

#endif
