/** \file h5_convert.h  Converts stored elements to the types of this program, without HDF5.
 * Internal. */
#ifndef CT_H5_CONVERT_H
#define CT_H5_CONVERT_H
#include <hdf5.h>
#include <stddef.h>

#include "hdf5io/read/h5_cf.h"

/** Conversion of one element. Plain data, sent to other ranks as bytes. */
typedef struct ct__h5_convert {
  enum {
    CT__H5_AS_IT_IS,
    CT__H5_HALF,   /**< to float32 */
    CT__H5_BF16,   /**< to float32 */
    CT__H5_UINT16, /**< to int32 */
    CT__H5_UINT32, /**< to int64 */
    CT__H5_UINT64, /**< to float64 */
    CT__H5_CF,     /**< to float32 by \a cf */
  } kind;
  int swap;      /**< 1: stored in the other byte order */
  size_t stored; /**< bytes per element in the file */
  size_t here;   /**< bytes per element in memory */
  ct__h5_cf_t cf;
} ct__h5_convert_t;

/** Needs the lock. Finds the conversion of a stored type to the type that the reader uses for it.
 * Returns 1, or 0 if only HDF5 can convert it. */
int ct__h5_convert_find(hid_t type, ct__h5_convert_t *out);
/** Returns 1 if bytes are copied unchanged. */
int ct__h5_convert_nothing(const ct__h5_convert_t *c);
/** Converts \a n elements. \a from and \a to may be equal if the element sizes are. */
void ct__h5_convert(const ct__h5_convert_t *c, const void *from, size_t n, void *to);

#endif
