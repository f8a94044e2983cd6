/** \file h5_offset_vfd.h  How files are opened for reading: a file driver of HDF5 that can say
 * where raw data lies instead of reading it.  Internal.  Called with HDF5's lock.
 *
 * HDF5's own query for the place of a chunk takes milliseconds in large files and is wrong behind a
 * user block.  So a chunk is asked for as if it were to be read, and the driver, which is asked for
 * its bytes in the end, notes their address and reads nothing: a microsecond at any size of the
 * file.  Whoever wants them reads them later, without the lock. */
#ifndef CT_H5_NOTE_H
#define CT_H5_NOTE_H
#include <hdf5.h>
#include <stdint.h>

/** Stored bytes, by their place in the file (from its first byte, with a user block). */
typedef struct ct__h5_place {
  int64_t at, bytes; /**< bytes 0: never written, all of it has the fill value */
  uint32_t skipped;  /**< mask of filters that were left out when it was written */
} ct__h5_place_t;

/** Sets the driver in a property list of file access.  1 if done. */
int ct__h5_note_driver(hid_t access);
/** Where the chunk lies whose first element is at \a offset.  The array's file was opened with the
 * driver.  1, or 0: HDF5 must read it itself. */
int ct__h5_note_chunk(hid_t array, const hsize_t *offset, ct__h5_place_t *out);
/** The operating system's error of the last opening or reading by this thread that failed, since
 * ct__h5_note_no_error(), if it is the file system's own and not of a name or of rights; else 0.
 * HDF5 often says only what it could not do then. */
int ct__h5_note_error(void);
void ct__h5_note_no_error(void);
/** The driver's file, by the descriptor that H5Fget_vfd_handle() gives, is another one than any
 * that is opened from now on, even of the same name: HDF5 would otherwise go on with the descriptor
 * that it has, which a file server may have forgotten. */
void ct__h5_note_abandon(int *descriptor);

#endif
