/** \file h5_seal.h  The seal, a trailer of checkpoint files that detects damage before HDF5 reads
 * them. Internal.
 *
 * HDF5 can crash on damaged files. It ignores bytes after its own end of file, so checkpoints end
 * with a seal of 32 bytes: a magic number, and the length and hash of everything before it
 * (FORMAT.md). */
#ifndef CT_H5_SEAL_H
#define CT_H5_SEAL_H

/** Local. Appends the seal to a complete file. CT_ERR_IO */
int ct__h5_seal_write(const char *path);
/** Local. Verifies the seal of a file. CT_ERR_IO: cannot be read; CT_ERR_FORMAT: not a checkpoint,
 * truncated, or damaged; CT_ERR_NEWER: written by a newer version. */
int ct__h5_seal_check(const char *path);

#endif
