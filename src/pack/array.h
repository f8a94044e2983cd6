/** \file array.h  Arrays in NumPy files: their headers, and reading single rows.  Internal. */
#ifndef CT_PACK_ARRAY_H
#define CT_PACK_ARRAY_H
#include "base/ct_types.h"
#include "weights/ct_elem.h"

typedef struct ct__pack_array {
  const char *path; /**< borrowed; for messages */
  ct_elem_t type;
  int swapped; /**< 1: big-endian */
  int fortran; /**< 1: Fortran order, the first dim varies fastest */
  int ndim;
  int64_t dim[CT_MAX_DIMS];
  int64_t row;  /**< elements of a row: product of all dims but the first */
  int fd;       /**< the file with the elements, from offset `at` on; -1: they are in `data` */
  int64_t at;   /**< offset in the file or in `data` */
  char *data;   /**< owned; NULL: the elements are in the file */
  char *buffer; /**< a row as stored */
} ct__pack_array_t;

/** Local.  Opens an array of FILE.npy, FILE.npy.gz or FILE.npz.  For the latter, FILE.npz:NAME
 * selects the array (default: \a usual, or the only one).  Elements stay in the file, unless they
 * are compressed or in Fortran order.  CT_ERR_IO, CT_ERR_FORMAT: the message names file and array;
 * \a out has to be cleared even then. */
int ct__pack_array_open(const char *path, const char *usual, ct__pack_array_t *out);
void ct__pack_array_clear(ct__pack_array_t *a);
/** Local.  Loads all elements into memory. */
int ct__pack_array_load(ct__pack_array_t *a);
/** Returns the ct_dtype_t that holds all numbers of the array. */
ct_dtype_t ct__pack_array_dtype(const ct__pack_array_t *a);
/** Returns 1 if the elements are floats, so they are targets, not labels. */
int ct__pack_array_is_real(const ct__pack_array_t *a);
/** Local.  Reads row \a index as that type; last_first 1: moves the last dim before the others.
 * CT_ERR_IO; CT_ERR_DATA (the message does not name the row): a number does not fit, or is not
 * finite as float32. */
int ct__pack_array_row(ct__pack_array_t *a, int64_t index, int last_first, void *to);

/* ---- npy.c ---- */

/** Pure.  Parses the header of an npy file, which begins at \a head; *used: its length in bytes.
 * CT_ERR_FORMAT: the message names the array (a->path) and what was expected. */
int ct__pack_npy_header(const char *head, size_t bytes, ct__pack_array_t *a, size_t *used);

#endif
