/** \file h5_source.h  Other files that hold elements of an array. Internal. Called with HDF5's lock
 * held.
 *
 * A virtual array maps arrays of other files; external storage maps raw files. If HDF5 does not
 * find such a file it silently returns zeros (or the fill value). Elements that no mapping covers
 * have the fill value by design; but a mapping whose source cannot be opened or is too small is an
 * error here.
 *
 * Files are searched as HDF5 does. Sources of virtual arrays: an absolute name first as it is; if
 * that fails its last component, and any relative name, is searched in the directories of
 * HDF5_VDS_PREFIX (in which ${ORIGIN} counts only if it is a whole entry), next to the file, in the
 * working directory, and next to the target if the file's name is a link; `.` is the file itself;
 * %b is the block number of an unlimited mapping. Raw files: below HDF5_EXTFILE_PREFIX, else in the
 * working directory. ${ORIGIN} in these variables is the directory of the file. */
#ifndef CT_H5_SOURCE_H
#define CT_H5_SOURCE_H
#include "hdf5io/read/h5_stamp.h"

/** One mapping, one block of an unlimited mapping, or one raw file. */
typedef struct ct__h5_source {
  int64_t first;  /**< first sample that the source affects */
  int64_t end;    /**< sample after the last affected one */
  size_t mapping; /**< its index in the array */
  hsize_t block;  /**< its index in the mapping, if that is unlimited */
  hid_t of; /**< the array, borrowed: that of an earlier source if this is a nested virtual array */
  int depth;
  int64_t raw_bytes; /**< required size of a raw file; -1: it is an array in an HDF5 file */
  char *path;        /**< owned; NULL: not searched yet */
  hid_t array;       /**< keeps its file open; -1: a raw file, which HDF5 opens for each read */
  int fd;
  ct__h5_stamp_t stamp;
} ct__h5_source_t;

/** The sources of an array; all zero: no sources. */
typedef struct ct__h5_sources {
  ct__h5_source_t *v; /**< owned */
  int n;
  int64_t cap;
  hid_t creation;    /**< creation property list of the array `creation_of`; 0: none */
  hid_t creation_of; /**< 0: none */
} ct__h5_sources_t;

/** Lists the sources of an open \a array, which is borrowed; reads only its header. */
int ct__h5_sources_list(ct__h5_sources_t *s, hid_t array);
/** Call before reading samples: opens their sources if needed and checks that these are large
 * enough. CT_ERR_IO, CT_ERR_FORMAT name the source and the samples. */
int ct__h5_sources_need(ct__h5_sources_t *s, int64_t first, int64_t rows);
/** Call after reading: checks that the source files have not changed, as ct__h5_stamp_compare()
 * does. */
int ct__h5_sources_check(const ct__h5_sources_t *s, int64_t first, int64_t rows, int *changed);
void ct__h5_sources_clear(ct__h5_sources_t *s);

#endif
