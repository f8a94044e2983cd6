/** \file h5_convert.h  Stored elements as the types of this program, without HDF5.  Internal. */
#ifndef CT_H5_CONVERT_H
#define CT_H5_CONVERT_H
#include <hdf5.h>
#include <stddef.h>

#include "hdf5io/read/h5_cf.h"

/** What is to be done to an element.  Plain data: other ranks get it as it is. */
typedef struct ct__h5_convert {
  enum {
    CT__H5_AS_IT_IS,
    CT__H5_HALF,   /**< to float32 */
    CT__H5_BF16,   /**< to float32 */
    CT__H5_UINT16, /**< to int32 */
    CT__H5_UINT32, /**< to int64 */
    CT__H5_UINT64, /**< to float64 */
    CT__H5_CF,     /**< to float32, as \a cf says */
  } kind;
  int swap;            /**< 1: stored in the other byte order */
  size_t stored, here; /**< bytes of an element */
  ct__h5_cf_t cf;
} ct__h5_convert_t;

/** With the lock.  How elements of a stored type become those of the type that the reader has for
 * it.  1, or 0: HDF5 alone knows. */
int ct__h5_convert_find(hid_t type, ct__h5_convert_t *out);
/** 1 if bytes are copied as they are. */
int ct__h5_convert_nothing(const ct__h5_convert_t *c);
/** \a n elements.  \a from and \a to may be the same where the sizes are. */
void ct__h5_convert(const ct__h5_convert_t *c, const void *from, size_t n, void *to);

#endif
