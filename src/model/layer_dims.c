/* Dims in the options of layers: see layer_dims.h. */
#include "model/layer_dims.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"

int ct__layer_dim(const ct_shape_t *s, const char *key, double dim, int *out)
{
  int rc = CT_OK;
  char shape[80];
  if (dim != floor(dim) || dim < -s->ndim || dim >= s->ndim)
    CT_FAIL(CT_ERR_SHAPE, "%s: %g is not a dim of its input, %s: expected %d to %d", key, dim,
            ct_shape_text(s, shape, sizeof shape), -s->ndim, s->ndim - 1);
  *out = (int)dim + (dim < 0 ? s->ndim : 0);
out:
  return rc;
}

int ct__layer_dims(const ct_shape_t *s, const char *key, const ct_opt_doubles_t *list,
                   unsigned *out)
{
  int rc = CT_OK, dim;
  *out = list->n ? 0 : (1u << s->ndim) - 1;
  for (int i = 0; i < list->n; i++) {
    CT_TRY(ct__layer_dim(s, key, list->v[i], &dim));
    if (*out >> dim & 1) CT_FAIL(CT_ERR_SHAPE, "%s: dim %d is listed twice", key, dim);
    *out |= 1u << dim;
  }
out:
  return rc;
}

int ct__layer_no_batch(const ct_shape_t *s, unsigned dims, const char *what)
{
  int rc = CT_OK;
  char shape[80];
  if (s->batch & dims)
    CT_FAIL(CT_ERR_SHAPE,
            "%s over the batch, dim %d of its input (%s of a sample), would mix samples, and the "
            "result would depend on the number of ranks",
            what, __builtin_ctz(s->batch & dims), ct_shape_text(s, shape, sizeof shape));
out:
  return rc;
}
