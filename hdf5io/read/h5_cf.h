/** \file h5_cf.h  Packed and missing values of netCDF (CF conventions). Internal.
 *
 * Attributes are interpreted like netCDF4-python's automatic masking and scaling: a stored value
 * that equals `_FillValue` or `missing_value`, or is outside of `valid_range` (`valid_min`,
 * `valid_max`), is missing. Other values are multiplied by `scale_factor`, then `add_offset` is
 * added, in float64. `_Unsigned` ("true") makes signed integers unsigned. Without `_FillValue` the
 * netCDF library's default for the type is missing too. An attribute whose value the stored type
 * cannot represent is ignored, since no stored value equals it. */
#ifndef CT_H5_CF_H
#define CT_H5_CF_H
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

enum { CT__H5_CF_MISSING = 8 /**< values of an array that mean "missing" */ };

/** A value of the array's type; integers are exact. */
typedef union ct__h5_cf_value {
  int64_t whole;
  double real;
} ct__h5_cf_value_t;

/** The CF attributes of an array. Plain data, sent to other ranks as bytes. */
typedef struct ct__h5_cf {
  int found;       /**< 1: the array has CF attributes */
  int is_float;    /**< 1: the stored elements are floats */
  int is_unsigned; /**< 1: they are unsigned integers, after `_Unsigned` was applied */
  int swap;        /**< 1: stored in the other byte order */
  int bytes;       /**< per stored element */
  int scaled;      /**< 1: scale is not 1 or offset is not 0 */
  double scale, offset;
  int missing, has_min, has_max;
  ct__h5_cf_value_t value[CT__H5_CF_MISSING], min, max;
  float fill; /**< replaces missing values: NaN, unless the user sets another */
} ct__h5_cf_t;

/** Needs the lock. Reads the CF attributes of an array. A float array without attributes has only
 * NaN as missing value; `found` is then 0 unless \a fill is a number. CT_ERR_FORMAT names the file,
 * the array and the invalid attribute. */
int ct__h5_cf_find(hid_t array, const char *path, const char *name, float fill, ct__h5_cf_t *out);
/** Needs the lock. Sets the sign of \a type, a copy of the array's integer type, as `_Unsigned`
 * demands. */
void ct__h5_cf_sign(hid_t array, hid_t type);
/** Returns 1 if values stay as stored, with NaN for missing ones. */
int ct__h5_cf_nothing(const ct__h5_cf_t *c);
/** Converts \a n stored elements to float32, with c->fill for missing ones. */
void ct__h5_cf_apply(const ct__h5_cf_t *c, const void *from, size_t n, float *to);
/** Converts \a n stored integers to int64 with their intended sign. Returns how many are missing
 * values; *which is one of these. */
int64_t ct__h5_cf_labels(const ct__h5_cf_t *c, const void *from, size_t n, int64_t *to,
                         int64_t *which);
/** Describes the attributes in buf and returns it: "x 0.01 + 273, -32767 is missing". */
const char *ct__h5_cf_text(const ct__h5_cf_t *c, char *buf, size_t cap);

#endif
