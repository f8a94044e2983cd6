/* torch.sum() and its like over some dims, torch.max(dim), and torch.cumsum().  Dims count as in
 * PyTorch. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"

typedef struct {
  ct_opt_doubles_t dims;
  double dim, p, correction;
  int keepdim;
} reduce_t;

#define DIMS    CT_OPT_DOUBLES(reduce_t, dims, "", "dims to reduce; none: all")
#define DIM     CT_OPT_DOUBLE(reduce_t, dim, NULL, -CT_MAX_DIMS, CT_MAX_DIMS - 1, "the dim")
#define KEEPDIM CT_OPT_BOOL(reduce_t, keepdim, "false", "keep the reduced dims as dims of 1")

static const ct_opt_t rows_dims[] = {DIMS, KEEPDIM, CT_OPT_END};
static const ct_opt_t rows_one[] = {DIM, KEEPDIM, CT_OPT_END};
static const ct_opt_t rows_cumsum[] = {DIM, CT_OPT_END};
static const ct_opt_t rows_norm[] = {CT_OPT_DOUBLE_OR(reduce_t, p, "2", 1e-3, 1e3, "inf",
                                                      "order of the norm; inf: the largest size"),
                                     DIMS, KEEPDIM, CT_OPT_END};
static const ct_opt_t rows_spread[] = {
    CT_OPT_DOUBLE(reduce_t, correction, "1", 0, 1e9,
                  "the divisor is the number of values less this"),
    DIMS, KEEPDIM, CT_OPT_END};

/* Finds the dims of an option: `dims`, or the one of a kind with `dim`. */
static int find_dims(const reduce_t *o, const ct_shape_t *in, int one, unsigned *dims)
{
  int rc = CT_OK, dim;
  if (!one) return ct__layer_dims(in, "dims", &o->dims, dims);
  CT_TRY(ct__layer_dim(in, "dim", o->dim, &dim));
  *dims = 1u << dim;
out:
  return rc;
}

static int reduce_infer(const reduce_t *o, const ct_shape_t *in, int one, const char *word,
                        ct_shape_t *out)
{
  int rc = CT_OK, n = 0;
  unsigned dims;
  char what[32];
  CT_TRY(find_dims(o, in, one, &dims));
  snprintf(what, sizeof what, "the %s", word);
  CT_TRY(ct__layer_no_batch(in, dims, what));
  *out = ct_shape(1, 1);
  for (int i = 0; i < in->ndim; i++) {
    if (dims >> i & 1 && !o->keepdim) continue;
    if (in->batch >> i & 1) out->batch |= 1u << n;
    out->dim[n++] = dims >> i & 1 ? 1 : in->dim[i];
  }
  if (n) out->ndim = n;
out:
  return rc;
}

static int check_spread(const reduce_t *o, const ct_shape_t *in)
{
  int rc = CT_OK;
  unsigned dims;
  double count = 1;
  CT_TRY(find_dims(o, in, 0, &dims));
  for (int i = 0; i < in->ndim; i++)
    if (dims >> i & 1) count *= (double)in->dim[i];
  if (!(count > o->correction))
    CT_FAIL(CT_ERR_SHAPE, "needs more values than its correction, %g, but has %g", o->correction,
            count);
out:
  return rc;
}

static void reduce_attributes(const reduce_t *o, int one, ct_reduction_t mode, ct_op_desc_t *d)
{
  find_dims(o, &d->x, one, &d->u.reduce.dims); /* it succeeded before */
  d->u.reduce.mode = mode;
  if (mode == CT_RED_NORM) d->u.reduce.p = o->p < 0 ? INFINITY : o->p; /* the word inf is -1 */
  if (mode == CT_RED_VAR || mode == CT_RED_STD) d->u.reduce.correction = o->correction;
}

/* A kind: its mode, option rows, 1 if it has one dim, and its help. */
#define KIND(word, id, of, one, text)                                                           \
  static int infer_##word(const void *opts, const ct_shape_t *in, ct_shape_t *out)              \
  {                                                                                             \
    int rc = CT_OK;                                                                             \
    if (CT_RED_##id == CT_RED_VAR || CT_RED_##id == CT_RED_STD) CT_TRY(check_spread(opts, in)); \
    CT_TRY(reduce_infer(opts, in, one, #word, out));                                            \
  out:                                                                                          \
    return rc;                                                                                  \
  }                                                                                             \
  static void attributes_##word(const void *opts, ct_op_desc_t *d)                              \
  {                                                                                             \
    reduce_attributes(opts, one, CT_RED_##id, d);                                               \
  }                                                                                             \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                                       \
                                           .help = text,                                        \
                                           .opts_bytes = sizeof(reduce_t),                      \
                                           .opts = of,                                          \
                                           .inputs = 1,                                         \
                                           .general = 1,                                        \
                                           .infer = infer_##word,                               \
                                           .op = CT_OP_REDUCE,                                  \
                                           .attributes = attributes_##word};

KIND(sum, SUM, rows_dims, 0, "sum over some dims")
KIND(mean, MEAN, rows_dims, 0, "mean over some dims")
KIND(amax, AMAX, rows_dims, 0, "maximum over some dims; equal maxima share the gradient")
KIND(amin, AMIN, rows_dims, 0, "minimum over some dims; equal minima share the gradient")
KIND(prod, PROD, rows_dims, 0, "product over some dims")
KIND(norm, NORM, rows_norm, 0, "p-norm over some dims")
KIND(var, VAR, rows_spread, 0, "variance over some dims")
KIND(std, STD, rows_spread, 0, "standard deviation over some dims")
KIND(logsumexp, LOGSUMEXP, rows_dims, 0, "logarithm of the sum of exponentials over some dims")
KIND(max, MAX, rows_one, 1, "maximum along a dim; the first of equal maxima has the gradient")
KIND(min, MIN, rows_one, 1, "minimum along a dim; the first of equal minima has the gradient")

/* ---- kinds along one dim that keep the shape ---- */

static int along_infer(const void *opts, const ct_shape_t *in, const char *what, ct_shape_t *out)
{
  int rc = CT_OK;
  unsigned dims;
  CT_TRY(find_dims(opts, in, 1, &dims));
  CT_TRY(ct__layer_no_batch(in, dims, what));
  *out = *in;
out:
  return rc;
}

static int infer_cumsum(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return along_infer(opts, in, "the cumulative sum", out);
}

static void attributes_cumsum(const void *opts, ct_op_desc_t *d)
{
  reduce_attributes(opts, 1, CT_RED_CUMSUM, d);
}

const ct_layer_ops_t ct__layer_cumsum = {.kind = "cumsum",
                                         .help = "cumulative sum along a dim",
                                         .opts_bytes = sizeof(reduce_t),
                                         .opts = rows_cumsum,
                                         .inputs = 1,
                                         .general = 1,
                                         .infer = infer_cumsum,
                                         .op = CT_OP_REDUCE,
                                         .attributes = attributes_cumsum};

static int infer_softmax(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return along_infer(opts, in, "a softmax", out);
}

static void attributes_softmax(const void *opts, ct_op_desc_t *d)
{
  const reduce_t *o = opts;
  ct__layer_dim(&d->x, "dim", o->dim, &d->u.softmax.dim); /* it succeeded before */
}

static void attributes_log_softmax(const void *opts, ct_op_desc_t *d)
{
  attributes_softmax(opts, d);
  d->u.softmax.log = 1;
}

#define SOFTMAX(word, text)                                                \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                  \
                                           .help = text,                   \
                                           .opts_bytes = sizeof(reduce_t), \
                                           .opts = rows_cumsum,            \
                                           .inputs = 1,                    \
                                           .general = 1,                   \
                                           .infer = infer_softmax,         \
                                           .op = CT_OP_SOFTMAX,            \
                                           .attributes = attributes_##word};
SOFTMAX(softmax, "softmax along a dim")
SOFTMAX(log_softmax, "logarithm of the softmax along a dim")
