/** \file h5_array.h  An opened array of a shard, and what keeps its reading honest.  Internal.
 * Unless it says otherwise a function here is called with HDF5's lock.
 *
 * Every reading stands between ct__h5_array_need() and ct__h5_array_check(): h5_stamp.h and
 * h5_source.h say why. */
#ifndef CT_H5_ARRAY_H
#define CT_H5_ARRAY_H
#include "data/local/ct_cache.h"
#include "hdf5io/read/h5_source.h"

typedef struct ct__h5_array {
  hid_t id;         /**< -1: not opened */
  const char *path; /**< of the shard; borrowed */
  const char *name; /**< borrowed */
  char *elsewhere;  /**< owned; the file that a link leads to; NULL: the shard itself */
  int fd;           /**< of the file that it lies in */
  ct__h5_stamp_t stamp;
  ct__h5_sources_t sources;
  ct_cache_file_t *cached; /**< owned; where its bytes are kept; NULL: nowhere */
  int changed;             /**< 1: a warning is due, see ct__h5_stamp_compare() */
} ct__h5_array_t;

/** Opens \a name of \a file, the shard at \a path.  CT_ERR_FORMAT says where a link leads to, or
 * what there is instead; \a key is that of the configuration, for messages. */
int ct__h5_array_open(ct__h5_array_t *a, hid_t file, const char *path, const char *name,
                      const char *key);
/** From now on its bytes go through this cache, unless they lie in another file. */
void ct__h5_array_cache(ct__h5_array_t *a, ct_cache_t *cache);
/** Before samples are read.  CT_ERR_IO, CT_ERR_FORMAT: a source of them is missing or too small. */
int ct__h5_array_need(ct__h5_array_t *a, int64_t first, int64_t rows);
/** After they were read.  CT_ERR_IO: a file of them has become shorter or longer. */
int ct__h5_array_check(ct__h5_array_t *a, int64_t first, int64_t rows);
/** Without the lock, as the next.  \a bytes bytes from place \a at of the file that it lies in: all
 * that is read of samples without HDF5.  CT_ERR_IO: it cannot be read, or ends before. */
int ct__h5_array_read(const ct__h5_array_t *a, int64_t at, size_t bytes, void *to);
/** A hint: these bytes will be read soon. */
void ct__h5_array_ahead(const ct__h5_array_t *a, int64_t at, int64_t bytes);
/** As ct__h5_array_check() of an array that has no sources; *changed is set to 1 where a warning is
 * due. */
int ct__h5_array_look(const ct__h5_array_t *a, int *changed);
/** One that is not opened is fine. */
void ct__h5_array_shut(ct__h5_array_t *a);

#endif
