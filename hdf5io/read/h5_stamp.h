/** \file h5_stamp.h  Whether a file is still the one that was opened.  Internal.
 *
 * HDF5 reads zeros behind the end of a file, without an error, if the file has become shorter since
 * it was opened.  So whoever reads compares stamps of the file, after each read: what was read
 * before it was cut off is right.
 *
 * What a difference means:
 *
 * Another size is an error.  It is the same on all nodes, in copies too, and nothing but writing
 * changes it.
 *
 * Another time of modification, or another file (inode) of the same name that came there since, is
 * a warning: it may hold other samples now, but `touch`, with which people keep files from being
 * purged, looks the same.
 *
 * A difference that is older than the stamp is nothing: nodes may have copies of their own, and
 * some file systems number their files on each node anew.  Only here clocks of two machines are
 * compared. */
#ifndef CT_H5_STAMP_H
#define CT_H5_STAMP_H
#include "hdf5io/h5_glue.h"

typedef struct ct__h5_stamp {
  int64_t bytes;
  int64_t inode;       /**< 0: not known, any will do */
  int64_t modified_ns; /**< when its content was changed last */
  int64_t changed_ns;  /**< when anything of it was: not before it came there */
  int64_t taken_ns;    /**< when the stamp was taken, by this node's clock */
} ct__h5_stamp_t;

/** With the lock.  Of the file that an opened object (or file) lies in, with the descriptor by
 * which HDF5 reads it, borrowed as long as the object is open.  CT_ERR_IO names \a path: it is
 * shorter now than when HDF5 opened it. */
int ct__h5_stamp_take(hid_t object, const char *path, int *fd, ct__h5_stamp_t *out);
/** Of an opened file, or with fd < 0 of that of a name.  CT_ERR_IO names \a path. */
int ct__h5_stamp_look(int fd, const char *path, ct__h5_stamp_t *out);
/** CT_ERR_IO names \a path and both sizes, if they differ; *changed is set to 1 where a warning is
 * due. */
int ct__h5_stamp_compare(const char *path, const ct__h5_stamp_t *was, const ct__h5_stamp_t *is,
                         int *changed);

#endif
