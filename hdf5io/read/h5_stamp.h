/** \file h5_stamp.h  Detects that a file has changed since it was opened. Internal.
 *
 * If a file has been truncated since it was opened, HDF5 reads zeros beyond its end without an
 * error. So the file's stamp is compared after each read: data read before the truncation is valid.
 *
 * Meaning of differences:
 *
 * A different size is an error. The size is the same on all nodes and in copies, and only writing
 * changes it.
 *
 * A different modification time, or another file (inode) that got the same name since, is a
 * warning: the file may hold other samples now, but `touch`, which people use to protect files from
 * purging, looks the same.
 *
 * A difference older than the stamp is ignored: nodes may have their own copies, and some file
 * systems assign different inode numbers on each node. Only this comparison involves clocks of two
 * machines. */
#ifndef CT_H5_STAMP_H
#define CT_H5_STAMP_H
#include "hdf5io/h5_glue.h"

typedef struct ct__h5_stamp {
  int64_t bytes;
  int64_t inode;       /**< 0: unknown, matches any */
  int64_t modified_ns; /**< last change of its content */
  int64_t changed_ns;  /**< last change of content or metadata, not before the file was created
                          here */
  int64_t taken_ns;    /**< when the stamp was taken, by this node's clock */
} ct__h5_stamp_t;

/** Needs the lock. Takes the stamp of the file that contains an open object (or of an open file),
 * and returns the descriptor by which HDF5 reads the file, borrowed while the object is open.
 * CT_ERR_IO names \a path: the file is shorter now than when HDF5 opened it. */
int ct__h5_stamp_take(hid_t object, const char *path, int *fd, ct__h5_stamp_t *out);
/** Takes the stamp of an open file, or with fd < 0 of the file at \a path. CT_ERR_IO names
 * \a path. */
int ct__h5_stamp_read(int fd, const char *path, ct__h5_stamp_t *out);
/** Compares two stamps of a file. CT_ERR_IO names \a path and both sizes if the sizes differ;
 * *changed is set to 1 if a warning is due. */
int ct__h5_stamp_compare(const char *path, const ct__h5_stamp_t *was, const ct__h5_stamp_t *is,
                         int *changed);

#endif
