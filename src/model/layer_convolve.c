/* torch.nn.functional.conv1d, conv2d and conv3d: a convolution whose weight, and bias if any, are
 * values that other layers compute, such as a normalised parameter. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  ct_opt_doubles_t stride, padding, dilation;
  int64_t groups;
} convolve_t;

#define EACH(key, def, lo, help)                                         \
  {                                                                      \
#    key, CT_OPT_T_DOUBLES, offsetof(convolve_t, key), def, lo, 4096, 0, \
        help ": one number, or one per dimension"                        \
  }

static const ct_opt_t rows[] = {EACH(stride, "1", 1, "pixels from window to window"),
                                EACH(padding, "0", 0, "zeros on each side, in pixels"),
                                EACH(dilation, "1", 1, "pixels from tap to tap"),
                                CT_OPT_INT(convolve_t, groups, "1", 1, 1 << 24,
                                           "groups of channels that are convolved separately"),
                                CT_OPT_END};

/* Reads one number per dim. */
static int each(const char *word, const ct_opt_doubles_t *list, int space, int64_t v[3])
{
  int rc = CT_OK;
  if (list->n != 1 && list->n != space)
    CT_FAIL(CT_ERR_SHAPE, "%s: expected one number, or one for each of %d dims, not %d", word,
            space, list->n);
  for (int i = 0; i < space; i++) {
    double one = list->v[list->n == 1 ? 0 : i];
    if (one != (double)(int64_t)one)
      CT_FAIL(CT_ERR_SHAPE, "%s: %g is not a whole number", word, one);
    v[i] = (int64_t)one;
  }
out:
  return rc;
}

static int check_weight(const convolve_t *o, const ct_shape_t *in)
{
  int rc = CT_OK;
  char x[80], w[80];
  if (in[0].ndim < 3 || in[0].ndim > 5 || in[1].ndim != in[0].ndim)
    CT_FAIL(CT_ERR_SHAPE,
            "needs N x C x L, images or volumes and a weight of as many dims, but its inputs are "
            "%s and %s",
            ct_shape_text(&in[0], x, sizeof x), ct_shape_text(&in[1], w, sizeof w));
  if (in[0].batch != 1)
    CT_FAIL(CT_ERR_SHAPE, "the batch is not the first dim of its first input, %s of a sample",
            ct_shape_text(&in[0], x, sizeof x));
  if (in[1].batch || in[2].batch)
    CT_FAIL(
        CT_ERR_SHAPE,
        "its weight and bias must not depend on the batch, but one of them, %s of a sample, does",
        ct_shape_text(in[1].batch ? &in[1] : &in[2], w, sizeof w));
  if (in[0].dim[1] != in[1].dim[1] * o->groups || in[1].dim[0] % o->groups)
    CT_FAIL(CT_ERR_SHAPE,
            "the weight %s does not fit its input %s in %" PRId64
            " groups: expected outputs x inputs per group x window",
            ct_shape_text(&in[1], w, sizeof w), ct_shape_text(&in[0], x, sizeof x), o->groups);
  if (in[2].ndim && (in[2].ndim != 1 || in[2].dim[0] != in[1].dim[0]))
    CT_FAIL(CT_ERR_SHAPE, "its bias is %s, expected %" PRId64, ct_shape_text(&in[2], w, sizeof w),
            in[1].dim[0]);
out:
  return rc;
}

static int convolve_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, space = in->ndim - 2;
  const convolve_t *o = opts;
  CT_TRY(check_weight(o, in));
  ct__layer_window_t w = {.space = space};
  CT_TRY(each("stride", &o->stride, space, w.stride));
  CT_TRY(each("padding", &o->padding, space, w.padding));
  CT_TRY(each("dilation", &o->dilation, space, w.dilation));
  for (int i = 0; i < space; i++)
    w.kernel[i] = in[1].dim[2 + i];
  CT_TRY(ct__layer_window_infer(&w, in, in[1].dim[0], out));
  out->batch = 1;
out:
  return rc;
}

static void convolve_attributes(const void *opts, ct_op_desc_t *d)
{
  const convolve_t *o = opts;
  int space = d->x.ndim - 2;
  for (int i = 0; i < space; i++) {
    d->u.conv.kernel[i] = (int)d->x2.dim[2 + i];
    d->u.conv.stride[i] = (int)o->stride.v[o->stride.n == 1 ? 0 : i];
    d->u.conv.pad[i] = (int)o->padding.v[o->padding.n == 1 ? 0 : i];
    d->u.conv.dilate[i] = (int)o->dilation.v[o->dilation.n == 1 ? 0 : i];
  }
  d->u.conv.groups = (int)o->groups;
  d->u.conv.bias = d->x3.ndim > 0;
}

const ct_layer_ops_t ct__layer_convolve = {
    .kind = "convolve",
    .help = "convolution with a computed weight: from: [x, weight] or [x, weight, bias]",
    .opts_bytes = sizeof(convolve_t),
    .opts = rows,
    .inputs = 3,
    .optional = 1,
    .general = 1,
    .infer = convolve_infer,
    .op = CT_OP_CONVOLVE,
    .attributes = convolve_attributes,
};
