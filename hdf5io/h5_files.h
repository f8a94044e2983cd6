/** \file h5_files.h  The opened files of a data set.  Internal.  Called with HDF5's lock.
 *
 * A file is opened when something of it is wanted first, and stays open: on parallel file systems
 * an opening is what costs.  Only if there are very many shards the one whose use is the longest
 * ago is closed. */
#ifndef CT_H5_FILES_H
#define CT_H5_FILES_H
#include "hdf5io/h5_array.h"

enum { CT__H5_FILES_OPEN = 256 }; /**< at once; HDF5 takes 0.6 MB for each */

typedef struct ct__h5_file {
  int shard; /**< -1: none */
  hid_t file;
  ct__h5_array_t array; /**< of samples; not opened yet: the caller's to do */
  uint64_t used;        /**< the time of its last use */
} ct__h5_file_t;

/** {0}: not made yet. */
typedef struct ct__h5_files {
  ct__h5_file_t *v;
  int n;
  uint64_t time;
} ct__h5_files_t;

/** For so many shards.  CT_ERR_NOMEM */
int ct__h5_files_make(ct__h5_files_t *f, int shards);
/** The opened file of a shard, borrowed until the next call.  As ct__h5_open(). */
int ct__h5_files_open(ct__h5_files_t *f, int shard, const char *path, ct__h5_file_t **out);
/** Closes the file of a shard, if it is open. */
void ct__h5_files_shut(ct__h5_files_t *f, int shard);
/** Closes all. */
void ct__h5_files_clear(ct__h5_files_t *f);

#endif
