/** \file h5_source.h  The other files that the elements of an array lie in.  Internal.  Called with
 * HDF5's lock.
 *
 * A virtual array takes its elements from arrays of other files, an external one from raw files.
 * HDF5 takes zeros (or the fill value) for what it does not find there.  What no mapping covers is
 * meant so; a mapping whose source cannot be opened, or is too small for it, is an error here.
 *
 * Files are looked for as HDF5 does.  Sources of virtual arrays: under an absolute name, else under
 * the last part of it as under a relative one, in the directories of HDF5_VDS_PREFIX (in which
 * ${ORIGIN} counts only where all of it is one), beside the file, in the working directory, beside
 * what the file's name is a link to; `.` is the file itself; %b counts the blocks of an unlimited
 * mapping.  Raw files: below HDF5_EXTFILE_PREFIX, else in the working directory.  ${ORIGIN} in
 * these variables is the directory of the file. */
#ifndef CT_H5_SOURCE_H
#define CT_H5_SOURCE_H
#include "hdf5io/read/h5_stamp.h"

/** One mapping, or block of an unlimited one, or raw file. */
typedef struct ct__h5_source {
  int64_t first, end; /**< the samples that it concerns: all before `end` */
  size_t mapping;     /**< its number in the array */
  hsize_t block;      /**< its number in the mapping, if that is unlimited */
  hid_t of; /**< the array, borrowed: that of a source before it, if that is virtual itself */
  int depth;
  int64_t raw_bytes; /**< that a raw file must hold; -1: it is an array of an HDF5 file */
  char *path;        /**< owned; NULL: not looked at yet */
  hid_t array;       /**< keeps its file open; -1: a raw file, which HDF5 opens at each reading */
  int fd;
  ct__h5_stamp_t stamp;
} ct__h5_source_t;

/** {0}: none. */
typedef struct ct__h5_sources {
  ct__h5_source_t *v; /**< owned */
  int n;
  int64_t cap;
  hid_t creation, creation_of; /**< the property list of an array, and the array; 0: none */
} ct__h5_sources_t;

/** Lists the sources of an opened \a array, which is borrowed; nothing but its header is read. */
int ct__h5_sources_list(ct__h5_sources_t *s, hid_t array);
/** Before such samples are read: opens those of their sources that are not open yet and checks that
 * they hold what is taken from them.  CT_ERR_IO, CT_ERR_FORMAT name the source and the samples. */
int ct__h5_sources_need(ct__h5_sources_t *s, int64_t first, int64_t rows);
/** After they were read: whether the files of their sources are as they were; as
 * ct__h5_stamp_compare(). */
int ct__h5_sources_check(const ct__h5_sources_t *s, int64_t first, int64_t rows, int *changed);
void ct__h5_sources_clear(ct__h5_sources_t *s);

#endif
