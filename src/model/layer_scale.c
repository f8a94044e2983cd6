/* A trained factor, and optionally a trained shift, for each channel: the layer scale of ConvNeXt
 * and CaiT, or a batchnorm without the normalisation. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  double init;
  int bias;
  int64_t dim;
} scale_t;

static const ct_opt_t scale_rows[] = {
    CT_OPT_DOUBLE(scale_t, init, "1", -1e30, 1e30, "initial factors, such as 1e-6"),
    CT_OPT_BOOL(scale_t, bias, "false", "add a trained shift, at first 0"),
    CT_OPT_INT(scale_t, dim, "1", -CT_MAX_DIMS, CT_MAX_DIMS - 1,
               "dim of the channels; -1: the last, for sequences"),
    CT_OPT_END};

static int scale_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, dim;
  const scale_t *o = opts;
  CT_TRY(ct__layer_dim(in, "dim", (double)o->dim, &dim));
  CT_TRY(ct__layer_no_batch(in, 1u << dim, "a factor for each index"));
  *out = *in;
out:
  return rc;
}

static int scale_dim(const scale_t *o, const ct_shape_t *in)
{
  return (int)o->dim + (o->dim < 0 ? in->ndim : 0);
}

static int scale_params(const void *opts, const ct_shape_t *in,
                        ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const scale_t *o = opts;
  ct_shape_t per_channel = ct_shape(1, in->dim[scale_dim(o, in)]);
  spec[0] = (ct_param_spec_t){
      .suffix = "weight", .shape = per_channel, .init = CT_INIT_FILL, .scale = o->init};
  spec[1] = (ct_param_spec_t){.suffix = "bias", .shape = per_channel, .init = CT_INIT_ZERO};
  return o->bias ? 2 : 1;
}

static void scale_attributes(const void *opts, ct_op_desc_t *d)
{
  const scale_t *o = opts;
  int dim = scale_dim(o, &d->x);
  ct_shape_t weight = ct_shape(d->x.ndim - dim, d->x.dim[dim], 1, 1, 1, 1, 1, 1, 1);
  ct_op_desc_more(d, &weight, o->bias ? &weight : NULL);
  d->u.expr.weight = o->bias ? 2 : 1;
  int scaled = ct_expr_add(&d->u.expr, CT_FN_MUL, 0, 1, 0);
  if (o->bias) ct_expr_add(&d->u.expr, CT_FN_ADD, scaled, 2, 0);
}

const ct_layer_ops_t ct__layer_scale = {
    .kind = "scale",
    .help = "x times a trained factor for each channel, plus a trained shift if asked for",
    .opts_bytes = sizeof(scale_t),
    .opts = scale_rows,
    .inputs = 1,
    .general = 1,
    .infer = scale_infer,
    .params = scale_params,
    .op = CT_OP_EXPR,
    .attributes = scale_attributes,
};
