/** \file h5_seal.h  The end of a checkpoint file by which damage is found before HDF5 reads it.
 * Internal.
 *
 * HDF5 can crash on damaged files.  It ignores what stands behind its own end, so a checkpoint ends
 * with 32 bytes of ours: a mark, the length and the hash of all that stands before (FORMAT.md). */
#ifndef CT_H5_SEAL_H
#define CT_H5_SEAL_H

/** Local.  Appends the seal to a complete file.  CT_ERR_IO */
int ct__h5_seal_write(const char *path);
/** Local.  CT_ERR_IO: cannot be read; CT_ERR_FORMAT: no checkpoint, cut off, or damaged;
 * CT_ERR_NEWER: sealed by a newer version. */
int ct__h5_seal_check(const char *path);

#endif
