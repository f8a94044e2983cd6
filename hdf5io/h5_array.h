/** \file h5_array.h  An opened array of a shard, and what keeps its reading honest.  Internal.  Called with HDF5's
 * lock.
 *
 * Every reading stands between ct__array_need() and ct__array_check(): h5_stamp.h and h5_source.h say why. */
#ifndef CT_H5_ARRAY_H
#define CT_H5_ARRAY_H
#include "hdf5io/h5_source.h"

typedef struct ct__array {
  hid_t id;         /**< -1: not opened */
  const char *path; /**< of the shard; borrowed */
  const char *name; /**< borrowed */
  char *elsewhere;  /**< owned; the file that a link leads to; NULL: the shard itself */
  int fd;           /**< of the file that it lies in */
  ct__stamp_t stamp;
  ct__sources_t sources;
  int changed; /**< 1: a warning is due, see ct__stamp_compare() */
} ct__array_t;

/** Opens \a name of \a file, the shard at \a path.  CT_ERR_FORMAT says where a link leads to, or what there is
 * instead; \a key is that of the configuration, for messages. */
int ct__array_open(ct__array_t *a, hid_t file, const char *path, const char *name, const char *key);
/** Before samples are read.  CT_ERR_IO, CT_ERR_FORMAT: a source of them is missing or too small. */
int ct__array_need(ct__array_t *a, int64_t first, int64_t rows);
/** After they were read.  CT_ERR_IO: a file of them has become shorter or longer. */
int ct__array_check(ct__array_t *a, int64_t first, int64_t rows);
/** One that is not opened is fine. */
void ct__array_shut(ct__array_t *a);

#endif
