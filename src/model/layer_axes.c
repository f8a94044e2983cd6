/* Dims and shapes as options of layers. */
#include "model/layer_axes.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"

int ct__layer_axis(double dim, int ndim, int *out)
{
  int rc = CT_OK;
  if (!(dim >= -ndim && dim < ndim && dim == floor(dim)))
    CT_FAIL(CT_ERR_SHAPE, "there is no dim %g: its input has the dims 0 to %d", dim, ndim - 1);
  *out = ct__layer_dim(dim, ndim);
out:
  return rc;
}

int ct__layer_wholes(const char *key, const ct_opt_doubles_t *from, int64_t *out)
{
  int rc = CT_OK;
  if (from->n < 1 || from->n > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "%s: expected 1 to %d numbers, not %d", key, CT_MAX_DIMS, from->n);
  for (int i = 0; i < from->n; i++) {
    double v = from->v[i];
    if (!(v >= INT32_MIN && v <= INT32_MAX && v == floor(v)))
      CT_FAIL(CT_ERR_SHAPE, "%s: %g is not a whole number below 2^31", key, v);
    out[i] = (int64_t)v;
  }
out:
  return rc;
}

int ct__layer_axes(const char *key, const ct_opt_doubles_t *from, int ndim, int *out)
{
  int rc = CT_OK, seen = 0;
  if (from->n > ndim) CT_FAIL(CT_ERR_SHAPE, "%s: more dims than the %d of its input", key, ndim);
  for (int i = 0; i < from->n; i++) {
    CT_TRY(ct__layer_axis(from->v[i], ndim, &out[i]));
    if (seen >> out[i] & 1) CT_FAIL(CT_ERR_SHAPE, "%s: dim %g is there twice", key, from->v[i]);
    seen |= 1 << out[i];
  }
out:
  return rc;
}

static int size_of(const char *text, int least, ct__size_t *out)
{
  int rc = CT_OK;
  char *end;
  int digit = isdigit((unsigned char)*text) || *text == '-';
  *out = (ct__size_t){digit ? strtoll(text, &end, 10) : 1, 0};
  if (!digit) end = (char *)(uintptr_t)text;
  if (*end == 'N') out->batch = 1;
  int proper = out->n >= 1 || (out->n == -1 && least == -1 && !out->batch);
  if (digit && end == text) proper = 0;
  if (!proper || out->n > INT32_MAX || end[out->batch])
    CT_FAIL(CT_ERR_SHAPE,
            "shape: '%.40s' is not a size: expected a number of at least 1, or N or 12N for sizes "
            "that grow with the batch%s",
            text, least == -1 ? ", or -1" : "");
out:
  return rc;
}

int ct__layer_sizes(const ct_opt_texts_t *from, int least, ct__size_t *out)
{
  int rc = CT_OK;
  if (from->n < 1 || from->n > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "shape: expected 1 to %d sizes, not %d", CT_MAX_DIMS, from->n);
  for (int i = 0; i < from->n; i++)
    CT_TRY(size_of(from->v[i], least, &out[i]));
out:
  return rc;
}

int ct__layer_keeps_batch(const ct_shape_t *in, int dim, const char *what)
{
  int rc = CT_OK;
  if (in->batch >> dim & 1)
    CT_FAIL(CT_ERR_SHAPE,
            "dim %d is the batch: %s it would mix samples, and the result would depend on the "
            "batch size and the number of ranks",
            dim, what);
out:
  return rc;
}

void ct__layer_same_map(ct_op_desc_t *d)
{
  for (int i = 0; i < d->x.ndim; i++) {
    d->u.strided.from[i] = i;
    d->u.strided.step[i] = 1;
  }
}
