/* torch.nn.functional.pad: the last dims get more elements at both ends, or with negative numbers
 * fewer. */
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"

typedef struct {
  ct_opt_doubles_t pad;
  ct_opt_texts_t mode;
  double value;
} pad_t;

static const ct_opt_t pad_rows[] = {
    CT_OPT_DOUBLES(pad_t, pad, NULL,
                   "elements before and after the last dim, then those of the dim before it, …"),
    CT_OPT_TEXTS(pad_t, mode, "constant",
                 "what they are: constant (`value`), or elements of the input as in "
                 "torch.nn.functional.pad: reflect, replicate, circular; or one word for each dim"),
    CT_OPT_DOUBLE(pad_t, value, "0", -1e308, 1e308, "value of the mode constant"), CT_OPT_END};

/* Finds the mode of the dim that is number i from the last. */
static int pad_mode(const pad_t *o, int i, int *mode)
{
  int rc = CT_OK;
  static const char *const words[] = {"constant", "reflect", "replicate", "circular"};
  if (o->mode.n != 1 && o->mode.n != o->pad.n / 2)
    CT_FAIL(CT_ERR_SHAPE, "mode: expected one word, or one for each of %d dims, not %d",
            o->pad.n / 2, o->mode.n);
  const char *word = o->mode.v[o->mode.n == 1 ? 0 : i];
  for (*mode = 0; *mode < CT_EDGE_COUNT; ++*mode)
    if (strcmp(word, words[*mode]) == 0) return CT_OK;
  CT_FAIL(CT_ERR_SHAPE, "mode: expected constant, reflect, replicate or circular, not '%.40s'",
          word);
out:
  return rc;
}

/* Checks the elements before or after a dim of n elements. */
static int pad_check(int mode, int64_t size, int64_t n)
{
  int rc = CT_OK;
  if (mode == CT_EDGE_REFLECT && size >= n)
    CT_FAIL(CT_ERR_SHAPE, "pad: to reflect %lld elements, a dim needs %lld, but it has %lld",
            (long long)size, (long long)size + 1, (long long)n);
  if (mode == CT_EDGE_WRAP && size > n)
    CT_FAIL(CT_ERR_SHAPE, "pad: %lld elements cannot come from the %lld at the other end",
            (long long)size, (long long)n);
out:
  return rc;
}

static int pad_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const pad_t *o = opts;
  int64_t size[CT_MAX_DIMS * 2];
  if (o->pad.n % 2 || o->pad.n < 2 || o->pad.n / 2 > in->ndim)
    CT_FAIL(CT_ERR_SHAPE, "pad: expected two numbers for each of up to %d dims, not %d", in->ndim,
            o->pad.n);
  for (int i = 0; i < o->pad.n; i += CT_MAX_DIMS) {
    ct_opt_doubles_t half = {o->pad.v + i, o->pad.n - i < CT_MAX_DIMS ? o->pad.n - i : CT_MAX_DIMS};
    CT_TRY(ct__layer_wholes("pad", &half, size + i));
  }
  *out = *in;
  for (int i = 0; i < o->pad.n / 2; i++) {
    int axis = in->ndim - 1 - i, mode;
    int64_t before = size[2 * i], after = size[2 * i + 1], n = in->dim[axis];
    if (before || after) CT_TRY(ct__layer_keeps_batch(in, axis, "to pad"));
    CT_TRY(pad_mode(o, i, &mode));
    CT_TRY(pad_check(mode, before, n));
    CT_TRY(pad_check(mode, after, n));
    out->dim[axis] = n + before + after;
    if (out->dim[axis] < 1)
      CT_FAIL(CT_ERR_SHAPE, "pad: nothing is left of dim %d, which has the size %lld", axis,
              (long long)n);
  }
out:
  return rc;
}

static void pad_attributes(const void *opts, ct_op_desc_t *d)
{
  const pad_t *o = opts;
  ct__layer_same_map(d);
  for (int i = 0; i < o->pad.n / 2; i++) {
    int axis = d->x.ndim - 1 - i, mode = CT_EDGE_VALUE;
    (void)pad_mode(o, i, &mode); /* it succeeded before */
    d->u.strided.start[axis] = -(int64_t)o->pad.v[2 * i];
    d->u.strided.edge[axis] = mode;
    if (mode == CT_EDGE_VALUE) d->u.strided.value = o->value;
  }
}

const ct_layer_ops_t ct__layer_pad = {
    .kind = "pad",
    .help = "adds elements at the ends of the last dims",
    .opts_bytes = sizeof(pad_t),
    .opts = pad_rows,
    .inputs = 1,
    .general = 1,
    .infer = pad_infer,
    .op = CT_OP_STRIDED,
    .attributes = pad_attributes,
};
