/* Names and sizes of types, and shapes as text. */
#include "base/ct_types.h"

#include <stdio.h>

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
    [CT_F32] = {"float32", 4}, [CT_BF16] = {"bfloat16", 2}, [CT_F16] = {"float16", 2},
    [CT_F64] = {"float64", 8}, [CT_U8] = {"uint8", 1},      [CT_I8] = {"int8", 1},
    [CT_I16] = {"int16", 2},   [CT_I32] = {"int32", 4},     [CT_I64] = {"int64", 8},
};

static const char *const layouts[] = {
    [CT_PLAIN] = "plain", [CT_C8] = "c8", [CT_C16] = "c16", [CT_NHWC] = "nhwc"};

static int dtype_known(ct_dtype_t t)
{
  return (size_t)t < sizeof dtypes / sizeof dtypes[0];
}

size_t ct_dtype_size(ct_dtype_t t)
{
  return dtype_known(t) ? dtypes[t].size : 0;
}

int64_t ct_dtype_whole(ct_dtype_t t, const void *p)
{
  switch (t) {
  case CT_U8:
    return *(const uint8_t *)p;
  case CT_I8:
    return *(const int8_t *)p;
  case CT_I16:
    return *(const int16_t *)p;
  case CT_I32:
    return *(const int32_t *)p;
  default:
    return *(const int64_t *)p;
  }
}

const char *ct_dtype_name(ct_dtype_t t)
{
  return dtype_known(t) ? dtypes[t].name : "unknown";
}

const char *ct_layout_name(ct_layout_t l)
{
  return (size_t)l < sizeof layouts / sizeof layouts[0] ? layouts[l] : "unknown";
}

ct_shape_t ct_shape_dims(int ndim, const int64_t dim[CT_MAX_DIMS])
{
  ct_shape_t s = {.dtype = CT_F32, .layout = CT_PLAIN, .ndim = ndim};
  for (int i = 0; i < CT_MAX_DIMS; i++)
    s.dim[i] = i < ndim ? dim[i] : 1;
  return s;
}

/* Multiplies and saturates.  Shapes come from configurations and files: an overflow must not give a
 * small number that can be allocated. */
static int64_t times(int64_t a, int64_t b)
{
  int64_t c;
  return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}

static int64_t product(const ct_shape_t *s, int from)
{
  int64_t n = 1;
  for (int i = from; i < s->ndim; i++)
    n = times(n, s->dim[i]);
  return n;
}

int64_t ct_shape_count(const ct_shape_t *s)
{
  return product(s, 0);
}

int64_t ct_shape_sample(const ct_shape_t *s)
{
  return product(s, 1);
}

int64_t ct_shape_padded(const ct_shape_t *s)
{
  int64_t block = s->layout == CT_C8 ? 8 : s->layout == CT_C16 ? 16 : 1;
  if (block == 1 || s->ndim < 2) return ct_shape_count(s);
  int64_t channels = times(s->dim[1] / block + (s->dim[1] % block != 0), block);
  return times(times(s->dim[0], channels), product(s, 2));
}

size_t ct_shape_bytes(const ct_shape_t *s)
{
  size_t bytes;
  int over = __builtin_mul_overflow((size_t)ct_shape_padded(s), ct_dtype_size(s->dtype), &bytes);
  return over ? SIZE_MAX : bytes;
}

int ct_shape_same(const ct_shape_t *a, const ct_shape_t *b)
{
  int same = a->ndim == b->ndim;
  for (int i = 0; same && i < a->ndim; i++)
    same = a->dim[i] == b->dim[i];
  return same;
}

const char *ct_shape_text(const ct_shape_t *s, char *buf, size_t cap)
{
  size_t len = 0;
  if (cap > 0) buf[0] = '\0';
  for (int i = 0; i < s->ndim && i < CT_MAX_DIMS && len < cap; i++)
    len += (size_t)snprintf(buf + len, cap - len, "%s%lld", i ? "x" : "", (long long)s->dim[i]);
  return buf;
}

int ct_inputs_same(const ct_inputs_t *a, const ct_inputs_t *b)
{
  int same = a->n == b->n;
  for (int i = 0; same && i < a->n; i++)
    same = strcmp(a->name[i], b->name[i]) == 0 && ct_shape_same(&a->x[i], &b->x[i]);
  return same;
}

const char *ct_inputs_text(const ct_inputs_t *in, char *buf, size_t cap)
{
  size_t len = 0;
  if (cap > 0) buf[0] = '\0';
  for (int i = 0; i < in->n && len < cap; i++) {
    char shape[80];
    ct_shape_text(&in->x[i], shape, sizeof shape);
    len += (size_t)snprintf(buf + len, cap - len, "%s%s=%s", i ? ", " : "", in->name[i],
                            shape + (in->x[i].dim[0] == 1 ? 2 : 0)); /* skips "1x" */
  }
  return buf;
}
