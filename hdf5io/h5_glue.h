/** \file h5_glue.h  HDF5 helpers for all files of this module. Internal.
 *
 * "The lock" is the one of ct__h5_lock(); a comment that begins with "Needs the lock" means that
 * the caller holds it. All functions of this file need the lock unless stated otherwise. HDF5
 * handles are closed by ct__h5_drop(), which accepts any kind and ignores invalid ones. */
#ifndef CT_H5_GLUE_H
#define CT_H5_GLUE_H
#include <hdf5.h>

#include "base/ct_format.h"
#include "base/ct_types.h"

/** Called without the lock. Returns 1 if \a f is an HDF5 file. */
int ct__h5_probe(FILE *f);
/** Format entry of readers and stores. */
#define CT__H5_FORMAT                      \
  {                                        \
    "HDF5", {".h5", ".hdf5"}, ct__h5_probe \
  }
/** The same of data sets, which may be of netCDF-4. */
#define CT__H5_DATA_FORMAT                                \
  {                                                       \
    "HDF5", {".h5", ".hdf5", ".nc", ".nc4"}, ct__h5_probe \
  }

/** Called without the lock. Takes and releases the single lock for all HDF5 calls; taking it also
 * turns off HDF5's own error printing. */
void ct__h5_lock(void);
void ct__h5_unlock(void);

/** Closes a handle of any kind; ignores invalid ones. Keeps the error record. */
void ct__h5_drop(hid_t id);
/** Writes the reason of the last failed HDF5 call to buf and returns it: the operating system's
 * message if the call has recorded one, else the message of HDF5's innermost function. */
const char *ct__h5_why(char *buf, size_t cap);

/** Opens a file for reading, with one request to the file system. CT_ERR_IO: cannot be opened;
 * CT_ERR_FORMAT: not an HDF5 file. Opening a FIFO would block, so one rank must call
 * ct_file_regular() before a file's first opening. No file lock is taken unless
 * HDF5_USE_FILE_LOCKING asks for it. The file stays open until all objects in it are closed too. */
int ct__h5_open(const char *path, hid_t *file);

/** Returns the type as stored in files (little-endian) or in memory (native); close it with
 * ct__h5_drop(). */
hid_t ct__h5_type_stored(ct_dtype_t type);
hid_t ct__h5_type_native(ct_dtype_t type);
/** Finds the element type of a stored type. Returns 1, or 0 if this program does not support it. */
int ct__h5_type_find(hid_t type, ct_dtype_t *out);
/** Writes the name of the stored type for messages ("uint16", "string") to buf and returns it. */
const char *ct__h5_type_text(hid_t type, char *buf, size_t cap);

/** Transfer rows \a first to \a first + \a rows - 1 of an array, with all other dims in full, to or
 * from memory with elements of \a type. An array without dims is one row. Return 1, or 0:
 * ct__h5_why(). */
int ct__h5_read_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, void *to);
/** Which dim of an array is that of rows. */
typedef struct ct__h5_rows_at {
  int lead;      /**< 0: the first dim; 1: the second one; -1: none, the array is one row */
  int64_t index; /**< lead 1: index in the first dim */
} ct__h5_rows_at_t;
int ct__h5_read_rows_at(hid_t array, ct_dtype_t type, ct__h5_rows_at_t at, int64_t first,
                        int64_t rows, void *to);
/** Reads rows as ct__h5_read_rows_at() does, but without converting the elements. */
int ct__h5_read_rows_stored(hid_t array, ct__h5_rows_at_t at, int64_t first, int64_t rows,
                            void *to);
int ct__h5_write_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, const void *from);

/** Returns 1 if an object (which may be a file) has the attribute. */
int ct__h5_has_attr(hid_t object, const char *name);
/** Reads an attribute as an integer. Returns 1, or 0 if it is missing or is not one integer. */
int ct__h5_attr_int(hid_t object, const char *name, int64_t *out);
/** Reads a string attribute, of fixed or variable length, cut to \a cap. Returns 1, or 0 if it is
 * missing or is not a string. */
int ct__h5_attr_text(hid_t object, const char *name, char *buf, size_t cap);
/** Describes an attribute for messages ("a string", "3 values of int64"), in buf (returned). */
const char *ct__h5_attr_kind(hid_t object, const char *name, char *buf, size_t cap);
/** Write an attribute. Return 1 on success. */
int ct__h5_put_attr_int(hid_t object, const char *name, int64_t value);
int ct__h5_put_attr_text(hid_t object, const char *name, const char *value);
/** Writes \a n strings of equal length, padded with zeros; HDF5 limits them to 64 KiB in total. */
int ct__h5_put_attr_texts(hid_t object, const char *name, const char *const *value, int64_t n);

/* ---- writing files ---- */

/** Creates the groups of a name, without the timestamps that HDF5 itself would give them. Ignores
 * errors: creating the array then fails too. */
void ct__h5_create_groups(hid_t file, const char *name);
/** Called without the lock, like the next two. Creates (replaces) the file; \a compact: smaller
 * metadata, readable by HDF5 1.8 and later. CT_ERR_IO */
int ct__h5_create(const char *path, int compact, hid_t *file);
/** Flushes and closes; only then are all write errors known. CT_ERR_IO names \a path and the
 * operating system's reason, and the file is removed. */
int ct__h5_finish(const char *path, hid_t file);
/** Closes without flushing and removes the file. */
void ct__h5_abandon(const char *path, hid_t file);

#endif
