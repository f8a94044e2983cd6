/* Shape checks, empty options and initializers shared by layer kinds.  The messages name the
 * expected and the actual shape; the graph prefixes them with the layer's name. */
#include "model/layer_usual.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

const ct_opt_t ct__layer_no_options[] = {CT_OPT_END};

int ct__layer_want_space(const ct_shape_t *in, int space)
{
  int rc = CT_OK;
  char shape[80];
  static const char *const what[] = {"sequences (N x C x L)", "images (N x C x H x W)",
                                     "volumes (N x C x D x H x W)"};
  if (in->ndim != 2 + space)
    CT_FAIL(CT_ERR_SHAPE, "needs %s, but its input is %s", what[space - 1],
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__layer_want_sequence(const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim != 3)
    CT_FAIL(CT_ERR_SHAPE, "needs a sequence (N x T x features), but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__layer_want_channels(const ct_shape_t *in)
{
  return ct__layer_want_space(in, in->ndim == 5 ? 3 : in->ndim == 3 ? 1 : 2);
}

const char *ct__layer_shape_text(const ct_shape_t *s, char *buf, size_t cap)
{
  size_t len = 0;
  if (cap > 0) buf[0] = '\0';
  for (int i = 0; i < s->ndim && len < cap; i++) {
    int batch = s->batch >> i & 1;
    len += (size_t)snprintf(buf + len, cap - len, "%s", i ? "x" : "");
    if (len < cap && !(batch && s->dim[i] == 1))
      len += (size_t)snprintf(buf + len, cap - len, "%" PRId64, s->dim[i]);
    if (len < cap && batch) len += (size_t)snprintf(buf + len, cap - len, "N");
  }
  return buf;
}

/* A dim of a shape in a graph: its size, and 1 if it grows with the batch. */
typedef struct dim {
  int64_t size;
  unsigned batch;
} dim_t;

static dim_t dim_at(const ct_shape_t *s, int ndim, int i)
{
  int at = i - (ndim - s->ndim);
  return at < 0 ? (dim_t){1, 0} : (dim_t){s->dim[at], s->batch >> at & 1};
}

int ct__layer_broadcast(const ct_shape_t *in, int n, ct_shape_t *out)
{
  int rc = CT_OK, ndim = 0;
  char text[CT_OP_INPUTS][80] = {"", "", ""};
  for (int k = 0; k < n; k++)
    if (in[k].ndim > ndim) ndim = in[k].ndim;
  *out = ct_shape_dims(ndim, (const int64_t[CT_MAX_DIMS]){1, 1, 1, 1, 1, 1, 1, 1});
  for (int i = 0; i < ndim; i++) {
    dim_t all = {1, 0};
    for (int k = 0; k < n; k++) {
      dim_t own = dim_at(&in[k], ndim, i);
      int whole = all.size == 1 && !all.batch, one = own.size == 1 && !own.batch;
      if (!whole && !one && (own.size != all.size || own.batch != all.batch)) goto differ;
      if (!one) all = own;
    }
    out->dim[i] = all.size;
    out->batch |= all.batch << i;
  }
  return CT_OK;
differ:
  for (int k = 0; k < n; k++)
    ct__layer_shape_text(&in[k], text[k], sizeof text[k]);
  CT_FAIL(CT_ERR_SHAPE, "its inputs cannot be broadcast to one shape: %s and %s%s%s", text[0],
          text[1], n > 2 ? " and " : "", text[2]);
out:
  return rc;
}

int ct__layer_number(const char *key, const char *text, double *out)
{
  int rc = CT_OK;
  static const char *const infinite[] = {"inf", "-inf", ".inf", "-.inf"};
  for (int i = 0; i < 4; i++) {
    if (strcmp(text, infinite[i]) != 0) continue;
    *out = i % 2 ? -INFINITY : INFINITY;
    return CT_OK;
  }
  if (ct_text_double(text, out) != CT_OK)
    CT_FAIL(CT_ERR_SHAPE, "%s: expected a number, not %s", key, text);
out:
  return rc;
}

ct_param_spec_t ct__layer_uniform(const char *suffix, ct_shape_t shape, int64_t fan_in)
{
  return (ct_param_spec_t){suffix, shape, CT_INIT_UNIFORM, 1 / sqrt((double)fan_in), 0};
}

ct_param_spec_t ct__layer_xavier(const char *suffix, int64_t out, int64_t in)
{
  return (ct_param_spec_t){.suffix = suffix,
                           .shape = ct_shape(2, out, in),
                           .init = CT_INIT_UNIFORM,
                           .scale = sqrt(6 / ((double)in + (double)out))};
}
