/** \file array.h  Arrays of numbers in files of NumPy: where their elements are, and one row of
 * them as this program has it.  Internal. */
#ifndef CT_PACK_ARRAY_H
#define CT_PACK_ARRAY_H
#include "base/ct_types.h"
#include "weights/ct_elem.h"

typedef struct ct__pack_array {
  const char *path; /**< borrowed; named in messages */
  ct_elem_t type;
  int swapped; /**< 1: big-endian */
  int fortran; /**< 1: the first dim is the one whose elements are neighbours */
  int ndim;
  int64_t dim[CT_MAX_DIMS];
  int64_t row;  /**< elements of a row: all dims but the first */
  int fd;       /**< elements lie in it from `at` on; -1: in memory */
  int64_t at;   /**< likewise in data */
  char *data;   /**< owned; NULL: they are in the file */
  char *buffer; /**< a row as it is stored */
} ct__pack_array_t;

/** Local.  An array of FILE.npy, of its gzip, or of FILE.npz, where NAME behind a colon says which
 * (else it is \a usual, or the only one).  Elements of a file stay in it, unless they are
 * compressed or in Fortran's order.  CT_ERR_IO, CT_ERR_FORMAT: names file and array; \a out is to
 * be cleared also then. */
int ct__pack_array_open(const char *path, const char *usual, ct__pack_array_t *out);
void ct__pack_array_clear(ct__pack_array_t *a);
/** Local.  All elements into memory. */
int ct__pack_array_load(ct__pack_array_t *a);
/** The type of this program that holds all its numbers. */
ct_dtype_t ct__pack_array_dtype(const ct__pack_array_t *a);
/** 1: floats, which are targets and no labels. */
int ct__pack_array_is_real(const ct__pack_array_t *a);
/** Local.  Row \a index as that type; last_first: 1: with the last dim before the others.
 * CT_ERR_IO; CT_ERR_DATA (without the row's name): a number does not fit, or is not finite as
 * float32. */
int ct__pack_array_row(ct__pack_array_t *a, int64_t index, int last_first, void *to);

/* ---- npy.c ---- */

/** Pure.  What the header of an npy file says, which begins at \a head; *used: its bytes.
 * CT_ERR_FORMAT names the array (a->path) and what was expected. */
int ct__pack_npy_header(const char *head, size_t bytes, ct__pack_array_t *a, size_t *used);

#endif
