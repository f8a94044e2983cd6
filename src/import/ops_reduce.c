/* Rules: reductions over dims, softmax, cumulative sums. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/import.h"

/* Writes the dims of bits as a list. */
static const char *reduce_list(ct__im_t *t, unsigned bits)
{
  int64_t dim[CT_MAX_DIMS];
  int n = 0;
  for (int i = 0; i < CT_MAX_DIMS; i++)
    if (bits >> i & 1) dim[n++] = i;
  return ct__im_list(t, n, dim, 0);
}

/* Appends a reduction; more: further options, or "". */
static int reduce_dims(ct__im_t *t, const char *kind, int x, unsigned bits, int keep,
                       const char *more, int *out)
{
  const ct_shape_t s = t->layer[x].shape;
  ct_shape_t y = ct__im_reduced(&s, bits, keep);
  const char *list = reduce_list(t, bits);
  if (!list) return CT_ERR_NOMEM;
  if (s.batch & bits)
    return ct__im_refuse("combines the samples of a batch (dims %s); its result would depend on "
                         "the number of ranks",
                         list);
  if (s.ndim == 1 && bits == 1) keep = 1; /* a scalar is a tensor of one element here */
  return ct__im_one(t, out, kind, &y, x, "dims: %s%s%s", list, keep ? ", keepdim: yes" : "", more);
}

/* Reads the dims and keepdim of a node; data is not used. */
static int reduce_args(const ct__im_t *t, const ct_pt2_node_t *n, int ndim, unsigned *bits,
                       int *keep)
{
  int rc = CT_OK;
  *keep = 0;
  *bits = (1u << ndim) - 1;
  if (ct_pt2_arg(n, "dim")) CT_TRY(ct__im_dim_bits(t, n, "dim", ndim, bits));
  if (!ct_pt2_is_none(n, "keepdim")) CT_TRY(ct_pt2_bool(t->g, n, "keepdim", keep));
out:
  return rc;
}

/* The average of all pixels is a pooling. */
static int reduce_is_pool(const char *kind, const ct_shape_t *s, unsigned bits)
{
  return strcmp(kind, "mean") == 0 && s->batch == 1 && s->ndim == 4 && bits == 0xc;
}

static int reduce_plain(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, keep;
  unsigned bits;
  ct_shape_t y;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(reduce_args(t, n, s.ndim, &bits, &keep));
  if (reduce_is_pool(data, &s, bits)) {
    y = ct__im_reduced(&s, bits, 1);
    CT_TRY(ct__im_one(t, &x, "global_avgpool", &y, x, NULL));
    CT_TRY(ct__im_result(t, n, &y));
    CT_TRY(ct__im_reshape(t, x, &y, &x));
  } else {
    CT_TRY(reduce_dims(t, data, x, bits, keep, "", &x));
  }
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* var and std; data: the kind. */
static int reduce_spread(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, keep, unbiased = 1;
  unsigned bits;
  double correction = 1;
  char number[40];
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(reduce_args(t, n, t->layer[x].shape.ndim, &bits, &keep));
  if (!ct_pt2_is_none(n, "correction")) CT_TRY(ct_pt2_number(t->g, n, "correction", &correction));
  if (!ct_pt2_is_none(n, "unbiased")) {
    CT_TRY(ct_pt2_bool(t->g, n, "unbiased", &unbiased));
    correction = unbiased;
  }
  const char *more = "";
  if (correction != 1)
    more = ct__im_format(t, ", correction: %s", ct_text_number(correction, number, sizeof number));
  if (!more) return CT_ERR_NOMEM;
  CT_TRY(reduce_dims(t, data, x, bits, keep, more, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* var_mean and std_mean: two outputs. */
static int reduce_two(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, y, keep;
  unsigned bits;
  double correction = 1;
  char number[40];
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(reduce_args(t, n, t->layer[x].shape.ndim, &bits, &keep));
  if (!ct_pt2_is_none(n, "correction")) CT_TRY(ct_pt2_number(t->g, n, "correction", &correction));
  if (!ct_pt2_is_none(n, "unbiased")) {
    int unbiased;
    CT_TRY(ct_pt2_bool(t->g, n, "unbiased", &unbiased));
    correction = unbiased;
  }
  const char *more =
      ct__im_format(t, ", correction: %s", ct_text_number(correction, number, sizeof number));
  if (!more) return CT_ERR_NOMEM;
  CT_TRY(reduce_dims(t, data, x, bits, keep, more, &y));
  CT_TRY(ct__im_set(t, n, 0, y));
  CT_TRY(reduce_dims(t, "mean", x, bits, keep, "", &y));
  CT_TRY(ct__im_set(t, n, 1, y));
out:
  return rc;
}

/* A norm; data: the name of its order. */
static int reduce_norm(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, keep;
  unsigned bits;
  double p = 2;
  char number[40];
  const char *more = "";
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(reduce_args(t, n, t->layer[x].shape.ndim, &bits, &keep));
  if (!ct_pt2_is_none(n, data)) CT_TRY(ct_pt2_number(t->g, n, data, &p));
  if (isinf(p))
    more = p > 0 ? ", p: inf" : NULL;
  else if (p != 2)
    more = ct__im_format(t, ", p: %s", ct_text_number(p, number, sizeof number));
  if (!more) return ct__im_refuse("of order %g", p);
  CT_TRY(reduce_dims(t, "norm", x, bits, keep, more, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* max and min: of all, along a dim (with indices, which have no layer), or of two tensors. */
static int reduce_extreme(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, other, keep, dim;
  int most = strcmp(data, "max") == 0;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  if (ct_pt2_arg(n, "other")) {
    CT_TRY(ct__im_in(t, n, "other", 0, &other));
    CT_TRY(ct__im_binary(t, most ? "maximum" : "minimum", x, other, &x));
    return ct__im_done(t, n, x);
  }
  if (!ct_pt2_arg(n, "dim")) {
    CT_TRY(reduce_dims(t, most ? "amax" : "amin", x, (1u << s.ndim) - 1, 0, "", &x));
    return ct__im_done(t, n, x);
  }
  if (n->outs > 1 && !ct__im_unused(t, n->out[1]))
    return ct__im_refuse("its indices are used; only its values have a layer");
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(ct_pt2_bool(t->g, n, "keepdim", &keep));
  if (s.batch >> dim & 1) return ct__im_refuse("combines the samples of a batch");
  ct_shape_t y = ct__im_reduced(&s, 1u << dim, keep);
  CT_TRY(ct__im_one(t, &x, data, &y, x, "dim: %d%s", dim, keep ? ", keepdim: yes" : ""));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* softmax, log_softmax, cumsum; data: the kind. */
static int reduce_along(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  if (s.batch >> dim & 1) return ct__im_refuse("combines the samples of a batch (dim %d)", dim);
  int base = ct__im_before_expand(t, x, dim), back = s.ndim - t->layer[base].shape.ndim;
  CT_TRY(ct__im_one(t, &x, data, &t->layer[base].shape, base, "dim: %d", dim - back));
  CT_TRY(ct__im_expand(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* softmax that is 0 where all of a row is -inf; such a row gets no gradient either. */
static int reduce_safe_softmax(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, y, none, dim;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(reduce_dims(t, "amax", x, 1u << dim, 1, "", &none));
  CT_TRY(ct__im_one(t, &none, "eq", &t->layer[none].shape, none, "value: -inf"));
  CT_TRY(ct__im_add(t, &y, "where", &s, 2, (int[]){none, x}, "value: 0"));
  CT_TRY(ct__im_one(t, &y, "softmax", &s, y, "dim: %d", dim));
  CT_TRY(ct__im_add(t, &y, "where", &s, 2, (int[]){none, y}, "value: 0"));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

/* any and all of bools are max and min. */
static int reduce_logical(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, keep;
  unsigned bits;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  if (t->g->value[ct_pt2_arg(n, "self")->tensor[0]].type != CT_ELEM_BOOL)
    CT_TRY(ct__im_scalar(t, "ne", x, 0, &x));
  CT_TRY(reduce_args(t, n, t->layer[x].shape.ndim, &bits, &keep));
  CT_TRY(reduce_dims(t, data, x, bits, keep, "", &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

const ct__im_rule_t ct__im_reduces[] = {{"aten.sum", reduce_plain, "sum"},
                                        {"aten.mean", reduce_plain, "mean"},
                                        {"aten.amax", reduce_plain, "amax"},
                                        {"aten.amin", reduce_plain, "amin"},
                                        {"aten.prod", reduce_plain, "prod"},
                                        {"aten.logsumexp", reduce_plain, "logsumexp"},
                                        {"aten.var", reduce_spread, "var"},
                                        {"aten.std", reduce_spread, "std"},
                                        {"aten.var_mean", reduce_two, "var"},
                                        {"aten.std_mean", reduce_two, "std"},
                                        {"aten.norm", reduce_norm, "p"},
                                        {"aten.linalg_vector_norm", reduce_norm, "ord"},
                                        {"aten.max", reduce_extreme, "max"},
                                        {"aten.min", reduce_extreme, "min"},
                                        {"aten.any", reduce_logical, "amax"},
                                        {"aten.all", reduce_logical, "amin"},
                                        {"aten.softmax", reduce_along, "softmax"},
                                        {"aten._softmax", reduce_along, "softmax"},
                                        {"aten._safe_softmax", reduce_safe_softmax, NULL},
                                        {"aten.log_softmax", reduce_along, "log_softmax"},
                                        {"aten._log_softmax", reduce_along, "log_softmax"},
                                        {"aten.cumsum", reduce_along, "cumsum"},
                                        {NULL, NULL, NULL}};
