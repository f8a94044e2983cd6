/** \file ct_h5.h  The HDF5 module: data set reader and checkpoint container. Data sets are written
 * by ct_pack.h.
 *
 * HDF5 libraries are often built without thread safety, so every HDF5 call is made under one lock
 * of this module, which is released between the parts of long transfers. HDF5 takes no file locks
 * unless HDF5_USE_FILE_LOCKING asks for them (TRUE, 1 or BEST_EFFORT). FORMAT.md describes the file
 * layouts. */
#ifndef CT_H5_H
#define CT_H5_H
#include "ckpt/ct_store.h"
#include "data/readers/ct_reader.h"
#include "weights/ct_weights.h"

extern const ct_reader_ops_t ct_reader_hdf5;
extern const ct_store_ops_t ct_store_hdf5;
/** The checkpoint container as a weight file. */
extern const ct_weights_ops_t ct_weights_hdf5;
/** All arrays of an HDF5 file that is not a checkpoint, under their full names, for `inspect`. */
extern const ct_weights_ops_t ct_weights_any_hdf5;
/** Local. *out: 1 if the file has a checkpoint's end mark, intact or not. CT_ERR_IO */
int ct_h5_is_checkpoint(const char *path, int *out);

/** Local. Reads an array of up to a million numbers, of any shape, or its attribute \a attr (NULL:
 * the array). *out is allocated; *n 0: there is none. CT_ERR_IO, CT_ERR_FORMAT name the file. */
int ct_h5_numbers(const char *path, const char *array, const char *attr, double **out, int *n);
/** Local. Reads an array of bytes of one dim. *out is allocated; NULL: there is none. CT_ERR_IO,
 * CT_ERR_FORMAT name the file. */
int ct_h5_bytes(const char *path, const char *array, char **out, size_t *n);
typedef struct ct_h5_numbers {
  char name[300]; /**< may have groups, which are created */
  const double *v;
  int n;
} ct_h5_numbers_t;
/** Local. Writes a file of \a n arrays, which appears complete or not at all. CT_ERR_IO */
int ct_h5_numbers_write(const char *path, const ct_h5_numbers_t list[], int n);

/** Local. Sets HDF5_USE_FILE_LOCKING in the environment; call it before other threads are started.
 * Otherwise the first use of HDF5 does it. */
void ct_h5_setup(void);
/** Returns HDF5_USE_FILE_LOCKING as the user had set it when the program started; "": not set.
 * Borrowed. */
const char *ct_h5_locking(void);
/** Returns the version of the HDF5 library: "1.10.8". */
const char *ct_h5_version(void);
/** Returns the names of the filters that this program decodes itself: "deflate, shuffle, …". */
const char *ct_h5_filters(void);

#endif
