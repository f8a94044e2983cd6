/* CF convention attributes, and conversion of stored values according to them.
 *
 * Integers are compared as integers, since float64 cannot represent all large ones. Unsigned 64-bit
 * integers are stored with the top bit flipped, so that signed comparisons order them correctly. */
#include "hdf5io/read/h5_cf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "hdf5io/h5_glue.h"

enum { AT_ONCE = 256 /* elements */ };

/* ---- attributes ---- */

static const char *const names[] = {"scale_factor", "add_offset", "_FillValue", "missing_value",
                                    "valid_range",  "valid_min",  "valid_max",  "_Unsigned"};
enum { NAMES = sizeof names / sizeof names[0] };

/* The array being examined. */
typedef struct attrs {
  hid_t array;
  const char *path, *name;
  ct__h5_cf_t *c;
} attrs_t;

static int is_wide_unsigned(const ct__h5_cf_t *c)
{
  return c->is_unsigned && c->bytes == 8;
}

static int64_t turned(uint64_t v)
{
  return (int64_t)(v ^ (uint64_t)1 << 63);
}

/* Reads the values of an attribute, at most \a most; *n: their number. */
static int read_attr(const attrs_t *l, const char *name, int most, hid_t as, void *to, int *n)
{
  int rc = CT_OK;
  char kind[60];
  hid_t attr = H5Aopen(l->array, name, H5P_DEFAULT), type = H5Aget_type(attr),
        space = H5Aget_space(attr);
  H5T_class_t class = H5Tget_class(type);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  if ((class != H5T_INTEGER && class != H5T_FLOAT) || count < 1 || count > most)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: attribute '%s' of array '%s' is %s, expected %s%d number%s; data.cf: off reads "
            "the numbers as they are stored",
            l->path, name, l->name, ct__h5_attr_kind(l->array, name, kind, sizeof kind),
            most > 1 ? "1 to " : "", most, most > 1 ? "s" : "");
  if (H5Aread(attr, as, to) < 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot read attribute '%s' of array '%s'", l->path, name, l->name);
  *n = (int)count;
out:
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return rc;
}

static int attr_class(hid_t array, const char *name, int *is_unsigned)
{
  hid_t attr = H5Aopen(array, name, H5P_DEFAULT), type = attr < 0 ? -1 : H5Aget_type(attr);
  int class = H5Tget_class(type);
  *is_unsigned = class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return class;
}

/* Converts an integer to an element of the array. 0: not representable. An element stored signed
 * but meant unsigned may be given either way. */
static int fit_whole(const ct__h5_cf_t *c, int negative, uint64_t bits, int64_t *out)
{
  int64_t v = (int64_t)bits;
  int width = 8 * c->bytes;
  uint64_t all = width < 64 ? ((uint64_t)1 << width) - 1 : UINT64_MAX;
  if (!c->is_unsigned) {
    *out = v;
    if (!negative && bits > all >> 1) return 0;
    return !negative || v >= -(int64_t)(all >> 1) - 1;
  }
  if (negative && v < -(int64_t)(all >> 1) - 1) return 0;
  if (!negative && bits > all) return 0;
  bits &= all;
  *out = is_wide_unsigned(c) ? turned(bits) : (int64_t)bits;
  return 1;
}

static int fit_real(const ct__h5_cf_t *c, double v, ct__h5_cf_value_t *out)
{
  if (c->is_float) {
    out->real = c->bytes == 4 ? (double)(float)v : v;
    return 1;
  }
  if (!(v > -0x1p63 && v < 0x1p64) || v != floor(v)) return 0;
  uint64_t bits = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
  return fit_whole(c, v < 0, bits, &out->whole);
}

/* Converts an attribute's values to elements; *n: how many the array's type can represent. */
static int read_values(const attrs_t *l, const char *name, int most, ct__h5_cf_value_t *out, int *n)
{
  int rc = CT_OK, count = 0, is_unsigned;
  double real[CT__H5_CF_MISSING];
  int64_t whole[CT__H5_CF_MISSING];
  *n = 0;
  if (!ct__h5_has_attr(l->array, name)) return CT_OK;
  int is_whole = attr_class(l->array, name, &is_unsigned) == H5T_INTEGER && !l->c->is_float;
  if (is_whole)
    CT_TRY(read_attr(l, name, most, is_unsigned ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, whole,
                     &count));
  else
    CT_TRY(read_attr(l, name, most, H5T_NATIVE_DOUBLE, real, &count));
  for (int i = 0; i < count; i++) {
    int negative = is_whole && !is_unsigned && whole[i] < 0;
    *n += is_whole ? fit_whole(l->c, negative, (uint64_t)whole[i], &out[*n].whole)
                   : fit_real(l->c, real[i], &out[*n]);
  }
out:
  return rc;
}

static int read_number(const attrs_t *l, const char *name, double *out)
{
  int n;
  if (!ct__h5_has_attr(l->array, name)) return CT_OK;
  return read_attr(l, name, 1, H5T_NATIVE_DOUBLE, out, &n);
}

/* Finds the netCDF library's default fill values for arrays without _FillValue (netcdf.h,
 * NC_FILL_…). Bytes, which have no value to spare, have one only if the file defines a fill
 * value. */
static int default_fill(const attrs_t *l, ct__h5_cf_value_t *out)
{
  const ct__h5_cf_t *c = l->c;
  static const int64_t small[] = {[1] = -127, [2] = -32767, [4] = -2147483647};
  hid_t creation = H5Dget_create_plist(l->array), type = H5Dget_type(l->array);
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  H5Pfill_value_defined(creation, &defined);
  int is_signed = H5Tget_sign(type) == H5T_SGN_2;
  ct__h5_drop(type);
  ct__h5_drop(creation);
  if (c->bytes == 1 && defined != H5D_FILL_VALUE_USER_DEFINED) return 0;
  if (c->is_float) {
    out->real = c->bytes == 4 ? (double)9.9692099683868690e+36F : 9.9692099683868690e+36;
    return c->bytes > 2;
  }
  if (is_signed == c->is_unsigned)
    return 0; /* the sign was changed by _Unsigned, so the default is an ordinary value */
  if (is_signed)
    out->whole = c->bytes == 8 ? INT64_MIN + 2 : small[c->bytes];
  else
    out->whole =
        c->bytes == 8 ? turned(UINT64_MAX - 1) : (int64_t)(UINT64_MAX >> (64 - 8 * c->bytes));
  return 1;
}

static int find_missing(const attrs_t *l)
{
  int rc = CT_OK, n, filled;
  ct__h5_cf_t *c = l->c;
  ct__h5_cf_value_t range[2];
  CT_TRY(read_values(l, "_FillValue", 1, c->value, &filled));
  if (!filled) filled = default_fill(l, c->value);
  CT_TRY(read_values(l, "missing_value", CT__H5_CF_MISSING - 1, c->value + filled, &n));
  c->missing = filled + n;
  CT_TRY(read_values(l, "valid_range", 2, range, &n));
  if (n == 2) {
    c->has_min = c->has_max = 1;
    c->min = range[0];
    c->max = range[1];
    goto out;
  }
  CT_TRY(read_values(l, "valid_min", 1, &c->min, &c->has_min));
  CT_TRY(read_values(l, "valid_max", 1, &c->max, &c->has_max));
out:
  return rc;
}

/* Reads `_Unsigned`. Returns 1 or 0, or -1 if the array does not have this attribute. */
static int meant_unsigned(hid_t array)
{
  char word[16] = "";
  if (!ct__h5_attr_text(array, "_Unsigned", word, sizeof word)) return -1;
  if (strcmp(word, "true") == 0 || strcmp(word, "True") == 0) return 1;
  return strcmp(word, "false") == 0 || strcmp(word, "False") == 0 ? 0 : -1;
}

void ct__h5_cf_sign(hid_t array, hid_t type)
{
  int is_unsigned = meant_unsigned(array);
  if (is_unsigned >= 0) H5Tset_sign(type, is_unsigned ? H5T_SGN_NONE : H5T_SGN_2);
}

/* Determines the element type; 0: not supported. */
static int find_elements(const attrs_t *l)
{
  ct__h5_cf_t *c = l->c;
  ct_dtype_t known;
  hid_t type = H5Dget_type(l->array);
  H5T_class_t class = H5Tget_class(type);
  H5T_order_t order = H5Tget_order(type);
  c->bytes = (int)H5Tget_size(type);
  c->is_float = class == H5T_FLOAT;
  c->is_unsigned = class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
  c->swap = c->bytes > 1 && order != H5Tget_order(H5T_NATIVE_INT);
  int whole = class == H5T_INTEGER && H5Tget_precision(type) == 8 * (size_t)c->bytes &&
              (c->bytes == 1 || c->bytes == 2 || c->bytes == 4 || c->bytes == 8);
  int real = c->is_float && ct__h5_type_find(type, &known) && c->bytes >= 4;
  int simple = c->bytes == 1 || order == H5T_ORDER_LE || order == H5T_ORDER_BE;
  ct__h5_drop(type);
  int meant = whole ? meant_unsigned(l->array) : -1;
  if (meant >= 0) c->is_unsigned = meant;
  return (whole || real) && simple;
}

int ct__h5_cf_find(hid_t array, const char *path, const char *name, float fill, ct__h5_cf_t *out)
{
  int rc = CT_OK, found = -1;
  attrs_t l = {array, path, name, out};
  *out = (ct__h5_cf_t){.scale = 1, .fill = fill};
  for (int i = 0; i < NAMES && found < 0; i++)
    if (ct__h5_has_attr(array, names[i])) found = i;
  int can = find_elements(&l);
  if (found < 0) {
    out->found = can && out->is_float && !isnan(fill); /* NaN of any kind is already missing */
    return CT_OK;
  }
  if (!can)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' has the attribute '%s', but is of a type that it is not applied to; "
            "data.cf: off reads the numbers as they are stored",
            path, name, names[found]);
  out->found = 1;
  CT_TRY(read_number(&l, "scale_factor", &out->scale));
  CT_TRY(read_number(&l, "add_offset", &out->offset));
  if (!isfinite(out->scale) || out->scale == 0 || !isfinite(out->offset))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s': scale_factor is %g and add_offset %g, expected finite numbers, the "
            "first not 0; data.cf: off reads the numbers as they are stored",
            path, name, out->scale, out->offset);
  out->scaled = out->scale != 1 || out->offset != 0;
  CT_TRY(find_missing(&l));
out:
  return rc;
}

int ct__h5_cf_nothing(const ct__h5_cf_t *c)
{
  if (!c->is_float || c->scaled || c->has_min || c->has_max) return 0;
  for (int i = 0; i < c->missing; i++)
    if (!isnan(c->value[i].real)) return 0;
  return isnan(c->fill);
}

/* ---- conversion of elements ---- */

/* A batch of elements, copied since they may be unaligned. */
typedef struct part {
  int64_t whole[AT_ONCE];
  double real[AT_ONCE];
  char missing[AT_ONCE];
} part_t;

#define LOAD(type, swapped, to, made)          \
  for (size_t i = 0; i < n; i++) {             \
    type v;                                    \
    memcpy(&v, from + i * sizeof v, sizeof v); \
    if (c->swap) v = swapped(v);               \
    p->to[i] = made;                           \
  }                                            \
  break
#define KEEP(v) (v)
#define WHOLE(bits, swapped)                          \
  if (c->is_unsigned) {                               \
    LOAD(uint##bits##_t, swapped, whole, (int64_t)v); \
  }                                                   \
  LOAD(uint##bits##_t, swapped, whole, (int##bits##_t)v)

static void load_whole(const ct__h5_cf_t *c, const char *from, size_t n, part_t *p)
{
  switch (c->bytes) {
  case 1:
    WHOLE(8, KEEP);
  case 2:
    WHOLE(16, __builtin_bswap16);
  case 4:
    WHOLE(32, __builtin_bswap32);
  default:
    if (c->is_unsigned) {
      LOAD(uint64_t, __builtin_bswap64, whole, turned(v));
    }
    LOAD(uint64_t, __builtin_bswap64, whole, (int64_t)v);
  }
}

static double double_of(uint64_t bits)
{
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static float float_of(uint32_t bits)
{
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static void load_real(const ct__h5_cf_t *c, const char *from, size_t n, part_t *p)
{
  switch (c->bytes) {
  case 4:
    LOAD(uint32_t, __builtin_bswap32, real, (double)float_of(v));
  default:
    LOAD(uint64_t, __builtin_bswap64, real, double_of(v));
  }
}

#define MARK(field)                                        \
  do {                                                     \
    for (int k = 0; k < c->missing; k++)                   \
      for (size_t i = 0; i < n; i++)                       \
        p->missing[i] |= p->field[i] == c->value[k].field; \
    for (size_t i = 0; c->has_min && i < n; i++)           \
      p->missing[i] |= p->field[i] < c->min.field;         \
    for (size_t i = 0; c->has_max && i < n; i++)           \
      p->missing[i] |= p->field[i] > c->max.field;         \
  } while (0)

/* NaN always counts as missing. */
static void cf_load(const ct__h5_cf_t *c, const char *from, size_t n, part_t *p)
{
  memset(p->missing, 0, n);
  if (c->is_float) {
    load_real(c, from, n, p);
    MARK(real);
    for (size_t i = 0; i < n; i++)
      p->missing[i] |= p->real[i] != p->real[i];
    return;
  }
  load_whole(c, from, n, p);
  MARK(whole);
  if (is_wide_unsigned(c))
    for (size_t i = 0; i < n; i++)
      p->real[i] = (double)(uint64_t)turned((uint64_t)p->whole[i]);
  else
    for (size_t i = 0; i < n; i++)
      p->real[i] = (double)p->whole[i];
}

void ct__h5_cf_apply(const ct__h5_cf_t *c, const void *from, size_t n, float *to)
{
  part_t p;
  for (size_t first = 0, some; first < n; first += some) {
    some = n - first < AT_ONCE ? n - first : AT_ONCE;
    cf_load(c, (const char *)from + first * (size_t)c->bytes, some, &p);
    for (size_t i = 0; i < some; i++) {
      float v = p.missing[i] ? c->fill : (float)(p.real[i] * c->scale + c->offset);
      memcpy((char *)to + (first + i) * sizeof v, &v, sizeof v);
    }
  }
}

int64_t ct__h5_cf_labels(const ct__h5_cf_t *c, const void *from, size_t n, int64_t *to,
                         int64_t *which)
{
  part_t p;
  int64_t missing = 0;
  for (size_t first = 0, some; first < n; first += some) {
    some = n - first < AT_ONCE ? n - first : AT_ONCE;
    cf_load(c, (const char *)from + first * (size_t)c->bytes, some, &p);
    for (size_t i = 0; i < some; i++) {
      int64_t v = is_wide_unsigned(c) ? turned((uint64_t)p.whole[i]) : p.whole[i];
      to[first + i] = v;
      if (!p.missing[i]) continue;
      missing++;
      *which = v;
    }
  }
  return missing;
}

/* ---- description ---- */

static double number_of(const ct__h5_cf_t *c, const ct__h5_cf_value_t *v)
{
  if (c->is_float) return v->real;
  if (is_wide_unsigned(c)) return (double)(uint64_t)turned((uint64_t)v->whole);
  return (double)v->whole;
}

__attribute__((format(printf, 3, 4))) static void add(char *buf, size_t cap, const char *fmt, ...)
{
  va_list args;
  size_t length = strlen(buf);
  va_start(args, fmt);
  vsnprintf(buf + length, cap - length, fmt, args);
  va_end(args);
}

const char *ct__h5_cf_text(const ct__h5_cf_t *c, char *buf, size_t cap)
{
  *buf = 0;
  if (c->scaled) add(buf, cap, "x %.10g + %.10g", c->scale, c->offset);
  for (int i = 0; i < c->missing; i++)
    add(buf, cap, "%s%.10g%s",
        i      ? ", "
        : *buf ? "; "
               : "",
        number_of(c, &c->value[i]),
        i + 1 < c->missing ? ""
        : c->missing > 1   ? " are missing"
                           : " is missing");
  if (c->has_min) add(buf, cap, "%sfrom %.10g", *buf ? "; " : "", number_of(c, &c->min));
  if (c->has_max)
    add(buf, cap, "%sto %.10g", c->has_min ? " " : *buf ? "; " : "", number_of(c, &c->max));
  return buf;
}
