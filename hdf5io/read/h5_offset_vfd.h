/** \file h5_offset_vfd.h  An HDF5 virtual file driver that can report where raw data is stored
 * instead of reading it. Internal. Called with HDF5's lock held.
 *
 * HDF5's own query for a chunk's offset takes milliseconds in large files and is wrong after a user
 * block. So the chunk is requested as if it were to be read; the driver, when it is asked for the
 * bytes, records their address and reads nothing. This takes a microsecond at any file size. The
 * bytes are then read without the lock. */
#ifndef CT_H5_NOTE_H
#define CT_H5_NOTE_H
#include <hdf5.h>
#include <stdint.h>

/** File extent of stored bytes; the offset counts from the first byte of the file, including a user
 * block. */
typedef struct ct__h5_extent {
  int64_t at;       /**< offset in the file */
  int64_t bytes;    /**< 0: never written, all elements have the fill value */
  uint32_t skipped; /**< mask of the filters that were skipped when the bytes were written */
} ct__h5_extent_t;

/** Sets the driver in a file access property list. Returns 1 on success. */
int ct__h5_note_driver(hid_t access);
/** Finds the extent of the chunk whose first element is at \a offset. The file must have been
 * opened with the driver. Returns 1, or 0 if HDF5 must read the chunk. */
int ct__h5_note_chunk(hid_t array, const hsize_t *offset, ct__h5_extent_t *out);
/** Returns the errno of this thread's last failed open or read since ct__h5_note_no_error() if it
 * is a file system error, not a wrong name or missing permission; else 0. HDF5 often only reports
 * which operation failed. */
int ct__h5_note_error(void);
void ct__h5_note_no_error(void);
/** Makes the driver treat the file with this descriptor (from H5Fget_vfd_handle()) as different
 * from any file opened later, even by the same name. Otherwise HDF5 would reuse the old descriptor,
 * which the file server may have invalidated. */
void ct__h5_note_abandon(int *descriptor);

#endif
