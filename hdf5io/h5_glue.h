/** \file h5_glue.h  What every file of this folder needs of HDF5.  Internal.
 *
 * Unless it says otherwise a function here is called with the lock held.  HDF5 handles are released
 * with ct__h5_drop(), which takes any kind and ignores invalid ones. */
#ifndef CT_H5_GLUE_H
#define CT_H5_GLUE_H
#include <hdf5.h>

#include "base/ct_format.h"
#include "base/ct_types.h"

/** Called without the lock.  1 if it is an HDF5 file. */
int ct__h5_probe(FILE *f);
/** Of readers and stores. */
#define CT__H5_FORMAT                      \
  {                                        \
    "HDF5", {".h5", ".hdf5"}, ct__h5_probe \
  }

/** Called without the lock.  The one lock of all HDF5 calls; it also silences HDF5's own
 * printing. */
void ct__h5_lock(void);
void ct__h5_unlock(void);

/** Closes a handle of any kind; invalid ones are fine.  Leaves the record of errors as it is. */
void ct__h5_drop(hid_t id);
/** What went wrong in the last HDF5 call, in the words of its innermost function or, better, of the
 * operating system; into buf (returned). */
const char *ct__h5_why(char *buf, size_t cap);

/** Opens for reading, in one request to the file system.  CT_ERR_IO: cannot be opened;
 * CT_ERR_FORMAT: is no HDF5 file.  To open a FIFO would wait for its other end: ct_file_regular()
 * comes before the first opening of a file, by one rank.  No file lock is taken, unless
 * HDF5_USE_FILE_LOCKING in the environment asks for it.  The file stays open until all that is open
 * in it is closed too. */
int ct__h5_open(const char *path, hid_t *file);

/** How a type is stored in files (little-endian) or lies in memory (native); to be dropped. */
hid_t ct__h5_type_stored(ct_dtype_t type);
hid_t ct__h5_type_native(ct_dtype_t type);
/** The element type that a stored type means.  1, or 0 if there is none. */
int ct__h5_type_find(hid_t type, ct_dtype_t *out);
/** The stored type in words for messages ("uint16", "string"), into buf (returned). */
const char *ct__h5_type_text(hid_t type, char *buf, size_t cap);

/** Rows \a first to \a first + \a rows - 1 of an array, all of it in the other dims, from or to
 * memory with elements of \a type.  An array without dims is one row.  1, or 0: ct__h5_why(). */
int ct__h5_read_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, void *to);
/** The same as they are stored. */
int ct__h5_read_rows_stored(hid_t array, int64_t first, int64_t rows, void *to);
int ct__h5_write_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, const void *from);

/** 1 if an object (which may be a file) has the attribute. */
int ct__h5_has_attr(hid_t object, const char *name);
/** An attribute as an integer: 1; 0: there is none, or it is not one integer. */
int ct__h5_attr_int(hid_t object, const char *name, int64_t *out);
/** Likewise a text of either kind of string, cut to \a cap. */
int ct__h5_attr_text(hid_t object, const char *name, char *buf, size_t cap);
/** What an attribute is, for messages ("a string", "3 values of int64"), into buf (returned). */
const char *ct__h5_attr_kind(hid_t object, const char *name, char *buf, size_t cap);
/** 1 if written. */
int ct__h5_put_attr_int(hid_t object, const char *name, int64_t value);
int ct__h5_put_attr_text(hid_t object, const char *name, const char *value);
/** \a n texts of one length, padded with zeros; 64 KiB together is the most that HDF5 takes. */
int ct__h5_put_attr_texts(hid_t object, const char *name, const char *const *value, int64_t n);

/* ---- files being written ---- */

/** Called without the lock, like the next two.  Creates (replaces) the file; \a compact: its
 * structure takes less room, and is read by HDF5 1.8 and later.  CT_ERR_IO */
int ct__h5_create(const char *path, int compact, hid_t *file);
/** Flushes and closes; only now every error of writing is known.  CT_ERR_IO names \a path and the
 * operating system's reason; then the file is removed. */
int ct__h5_finish(const char *path, hid_t file);
/** Closes without writing and removes the file. */
void ct__h5_abandon(const char *path, hid_t file);

#endif
