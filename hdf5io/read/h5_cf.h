/** \file h5_cf.h  Packed and missing numbers of netCDF (CF conventions).  Internal.
 *
 * The attributes of a variable are understood as by netCDF4-python's automatic masking and scaling:
 * a stored number that equals `_FillValue` or `missing_value`, or lies outside of `valid_range`
 * (`valid_min`, `valid_max`), is missing; any other is multiplied by `scale_factor`, then
 * `add_offset` is added, in float64.  `_Unsigned` ("true") makes signed integers unsigned.  Without
 * a `_FillValue` the netCDF library's default for the type is missing too.  An attribute whose
 * value the stored type cannot have is passed over: no stored number equals it. */
#ifndef CT_H5_CF_H
#define CT_H5_CF_H
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

enum { CT__H5_CF_MISSING = 8 /**< values of an array that mean "missing" */ };

/** A number of the array's type: integers are exact. */
typedef union ct__h5_cf_value {
  int64_t whole;
  double real;
} ct__h5_cf_value_t;

/** What the attributes of an array say.  Plain data: other ranks get it as it is. */
typedef struct ct__h5_cf {
  int found;       /**< 1: it has such attributes */
  int is_float;    /**< of the stored elements: */
  int is_unsigned; /**< … with `_Unsigned` */
  int swap;        /**< 1: they are in the other byte order */
  int bytes;
  int scaled; /**< 1: scale and offset are other than 1 and 0 */
  double scale, offset;
  int missing, has_min, has_max;
  ct__h5_cf_value_t value[CT__H5_CF_MISSING], min, max;
  float fill; /**< what stands for a missing number: NaN, unless the user wants another */
} ct__h5_cf_t;

/** With the lock.  An array of floats without attributes has NaN alone for missing, and nothing is
 * found unless \a fill is a number.  CT_ERR_FORMAT names the file, the array and the attribute that
 * is not understood. */
int ct__h5_cf_find(hid_t array, const char *path, const char *name, float fill, ct__h5_cf_t *out);
/** With the lock.  Gives a copy of the array's type, one of integers, the sign that `_Unsigned`
 * says. */
void ct__h5_cf_sign(hid_t array, hid_t type);
/** 1 if numbers stay as they are, with NaN for those that are missing. */
int ct__h5_cf_nothing(const ct__h5_cf_t *c);
/** \a n stored elements to float32, \a fill for the missing ones. */
void ct__h5_cf_apply(const ct__h5_cf_t *c, const void *from, size_t n, float *to);
/** \a n stored integers as they are, with the sign that they are meant to have.  Returns how many
 * are missing; *which is one of them. */
int64_t ct__h5_cf_labels(const ct__h5_cf_t *c, const void *from, size_t n, int64_t *to,
                         int64_t *which);
/** "x 0.01 + 273, -32767 is missing", into buf (returned). */
const char *ct__h5_cf_text(const ct__h5_cf_t *c, char *buf, size_t cap);

#endif
