/** \file h5_array.h  An open array of a shard, with checks that its files have not changed.
 * Internal. Functions are called with HDF5's lock held unless stated otherwise.
 *
 * Every read must be enclosed by ct__h5_array_need() and ct__h5_array_check(); h5_stamp.h and
 * h5_source.h explain why. */
#ifndef CT_H5_ARRAY_H
#define CT_H5_ARRAY_H
#include "data/local/ct_cache.h"
#include "hdf5io/read/h5_source.h"

typedef struct ct__h5_array {
  hid_t id;         /**< -1: not open */
  const char *path; /**< of the shard; borrowed */
  const char *name; /**< borrowed */
  char *elsewhere;  /**< owned; the file that a link points to; NULL: the shard itself */
  int fd;           /**< of the file that contains the array */
  ct__h5_stamp_t stamp;
  ct__h5_sources_t sources;
  ct_cache_file_t *cached; /**< owned; local copy of its bytes; NULL: none */
  int changed;             /**< 1: a warning is due, see ct__h5_stamp_compare() */
} ct__h5_array_t;

/** Opens array \a name of \a file, the shard at \a path. CT_ERR_FORMAT states where a broken link
 * points, or what was found instead of an array; \a key: configuration key of the name, for
 * messages. */
int ct__h5_array_open(ct__h5_array_t *a, hid_t file, const char *path, const char *name,
                      const char *key);
/** Makes later reads of the array's bytes use \a cache, unless the bytes are in another file. */
void ct__h5_array_cache(ct__h5_array_t *a, ct_cache_t *cache);
/** Call before reading samples: checks the source files that hold them. CT_ERR_IO, CT_ERR_FORMAT: a
 * source file is missing or too small. */
int ct__h5_array_need(ct__h5_array_t *a, int64_t first, int64_t rows);
/** Call after reading samples: checks the files that hold them. CT_ERR_IO: the size of a file has
 * changed. */
int ct__h5_array_check(ct__h5_array_t *a, int64_t first, int64_t rows);
/** Called without the lock, like the next one. Reads \a bytes bytes at offset \a at of the file
 * that contains the array. All reads of samples without HDF5 use this function. CT_ERR_IO: read
 * error, or end of file. */
int ct__h5_array_read(const ct__h5_array_t *a, int64_t at, size_t bytes, void *to);
/** Hints to the system that \a bytes bytes at offset \a at will be read soon. */
void ct__h5_array_ahead(const ct__h5_array_t *a, int64_t at, int64_t bytes);
/** Like ct__h5_array_check() for an array without external sources; *changed is set to 1 if a
 * warning is due. */
int ct__h5_array_stat(const ct__h5_array_t *a, int *changed);
/** Closes the array if it is open. */
void ct__h5_array_shut(ct__h5_array_t *a);

#endif
