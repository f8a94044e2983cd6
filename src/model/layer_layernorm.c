/* torch.nn.LayerNorm over the last dims.  Each step of a sequence is normalised separately, so the
 * result does not depend on ranks or batch size.  The batch may be in any other dim. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <string.h>

#include "base/ct_err.h"

typedef struct {
  double eps;
  ct_opt_doubles_t shape;
  int elementwise_affine, bias;
  int64_t dim;
} layernorm_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(layernorm_t, eps, "1e-5", 0, 1, "added to the variance"),
    CT_OPT_DOUBLES(layernorm_t, shape, "", "sizes of the last dims; none: of one dim"),
    CT_OPT_BOOL(layernorm_t, elementwise_affine, "true", "trained scale and shift"),
    CT_OPT_BOOL(layernorm_t, bias, "true", "the shift is trained; no: there is none"),
    CT_OPT_INT(layernorm_t, dim, "-1", -CT_MAX_DIMS, CT_MAX_DIMS - 1,
               "another dim than the last, such as 1: the channels of images (ConvNeXt)"),
    CT_OPT_END};

static int dims_of(const layernorm_t *o)
{
  return o->shape.n ? o->shape.n : 1;
}

static int layernorm_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const layernorm_t *o = opts;
  int dims = dims_of(o), first = in->ndim - dims;
  char shape[80];
  ct_shape_text(in, shape, sizeof shape);
  if (in->ndim < 2 || first < 0)
    CT_FAIL(CT_ERR_SHAPE, "needs %d dims or more, but its input is %s", dims < 2 ? 2 : dims, shape);
  for (int i = 0; i < o->shape.n; i++)
    if (o->shape.v[i] != (double)in->dim[first + i])
      CT_FAIL(CT_ERR_SHAPE, "shape: dim %d of its input, %s, is not %g", first + i, shape,
              o->shape.v[i]);
  CT_TRY(ct__layer_no_batch(in, ((1u << dims) - 1) << first, "a normalisation"));
  *out = *in;
out:
  return rc;
}

/* Another dim is moved to the end, and back. */
static int layernorm_expands(const void *opts, const ct_shape_t *in, const char *name,
                             const char *from, const char *const *names, ct_str_t *out)
{
  int rc = CT_OK, dim, last = in->ndim - 1;
  const layernorm_t *o = opts;
  char eps[40], there[40] = "", back[40] = "";
  CT_TRY(ct__layer_dim(in, "dim", (double)o->dim, &dim));
  if (dim == last) return CT_OK;
  if (o->shape.n > 1) CT_FAIL(CT_ERR_SHAPE, "takes a `shape` of one size with `dim`");
  for (int i = 0; i <= last; i++) {
    const char *comma = i ? ", " : "";
    size_t a = strlen(there), b = strlen(back);
    ct_text_fit(there + a, sizeof there - a, "%s%d", comma, i == last ? dim : i + (i >= dim));
    ct_text_fit(back + b, sizeof back - b, "%s%d", comma, i == dim ? last : i - (i > dim));
  }
  CT_TRY(ct_str_add(out, "- {permute: {dims: [%s]}, name: %s.in, from: %s}\n", there, name, from));
  CT_TRY(ct_str_add(out, "- {layernorm: {eps: %s, elementwise_affine: %s, bias: %s",
                    ct_text_number(o->eps, eps, sizeof eps), o->elementwise_affine ? "yes" : "no",
                    o->bias ? "yes" : "no"));
  if (o->shape.n) CT_TRY(ct_str_add(out, ", shape: %g", o->shape.v[0]));
  if (names && names[0])
    CT_TRY(ct_str_add(out, "}, name: %s.norm, weights: [%s%s%s]}\n", name, names[0],
                      names[1] ? ", " : "", names[1] ? names[1] : ""));
  else
    CT_TRY(ct_str_add(out, "}, name: %s.norm, weights: [%s.weight, %s.bias]}\n", name, name, name));
  CT_TRY(ct_str_add(out, "- {permute: {dims: [%s]}, name: %s}\n", back, name));
out:
  return rc;
}

/* A scale or shift that is not trained is a constant. */
static int layernorm_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const layernorm_t *o = opts;
  int dims = dims_of(o);
  ct_shape_t features = ct_shape_dims(dims, in->dim + (in->ndim - dims));
  spec[0] = (ct_param_spec_t){.suffix = "weight", .shape = features, .init = CT_INIT_ONE};
  spec[1] = (ct_param_spec_t){.suffix = "bias", .shape = features, .init = CT_INIT_ZERO};
  if (!o->elementwise_affine) spec[0].buffer = CT_CONSTANT;
  if (!o->elementwise_affine || !o->bias) spec[1].buffer = CT_CONSTANT;
  return 2;
}

static void layernorm_attributes(const void *opts, ct_op_desc_t *d)
{
  const layernorm_t *o = opts;
  d->u.lnorm.eps = o->eps;
  d->u.lnorm.dims = dims_of(o);
}

const ct_layer_ops_t ct__layer_layernorm = {
    .kind = "layernorm",
    .help = "normalisation over the last dims, with trained scale and shift",
    .opts_bytes = sizeof(layernorm_t),
    .opts = rows,
    .inputs = 1,
    .general = 1,
    .expands = layernorm_expands,
    .infer = layernorm_infer,
    .params = layernorm_params,
    .op = CT_OP_LNORM,
    .attributes = layernorm_attributes,
};

/* ---- torch.nn.RMSNorm ---- */

static const ct_opt_t rmsnorm_rows[] = {
    CT_OPT_DOUBLE(layernorm_t, eps, "1.1920928955078125e-07", 0, 1,
                  "added to the mean of squares; the default is PyTorch's"),
    CT_OPT_DOUBLES(layernorm_t, shape, "", "sizes of the last dims; none: of one dim"),
    CT_OPT_BOOL(layernorm_t, elementwise_affine, "true", "trained scale"), CT_OPT_END};

static int rmsnorm_params(const void *opts, const ct_shape_t *in,
                          ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  layernorm_params(opts, in, spec);
  return 1;
}

static void rmsnorm_attributes(const void *opts, ct_op_desc_t *d)
{
  layernorm_attributes(opts, d);
  d->u.lnorm.rms = 1;
}

const ct_layer_ops_t ct__layer_rmsnorm = {
    .kind = "rmsnorm",
    .help = "division by the root mean square over the last dims, with trained scale",
    .opts_bytes = sizeof(layernorm_t),
    .opts = rmsnorm_rows,
    .inputs = 1,
    .general = 1,
    .infer = layernorm_infer,
    .params = rmsnorm_params,
    .op = CT_OP_LNORM,
    .attributes = rmsnorm_attributes,
};
