/* torch.nn.PReLU: x for x > 0, else weight * x, with a weight for all channels or for each. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t channels;
} prelu_t;

static const ct_opt_t prelu_rows[] = {
    CT_OPT_INT(prelu_t, channels, "1", 1, INT32_MAX, "weights: 1, or the number of channels"),
    CT_OPT_END};

static int prelu_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const prelu_t *o = opts;
  char shape[80];
  int fits = in->ndim > 1 && in->dim[1] == o->channels && !(in->batch & 2);
  if (o->channels > 1 && !fits)
    CT_FAIL(CT_ERR_SHAPE, "has a weight for each of %" PRId64 " channels, but its input is %s",
            o->channels, ct__layer_shape_text(in, shape, sizeof shape));
  *out = *in;
out:
  return rc;
}

static int prelu_params(const void *opts, const ct_shape_t *in,
                        ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const prelu_t *o = opts;
  (void)in;
  spec[0] = (ct_param_spec_t){
      .suffix = "weight", .shape = ct_shape(1, o->channels), .init = CT_INIT_FILL, .scale = 0.25};
  return 1;
}

static void prelu_attributes(const void *opts, ct_op_desc_t *d)
{
  const prelu_t *o = opts;
  ct_shape_t weight = ct_shape(o->channels > 1 ? d->x.ndim - 1 : 1, o->channels, 1, 1, 1, 1, 1, 1);
  ct_op_desc_more(d, &weight, NULL);
  d->u.expr.weight = 1;
  ct_expr_add(&d->u.expr, CT_FN_PRELU, 0, 1, 0);
}

const ct_layer_ops_t ct__layer_prelu = {
    .kind = "prelu",
    .help = "x if x > 0, else x times a trained weight",
    .opts_bytes = sizeof(prelu_t),
    .opts = prelu_rows,
    .inputs = 1,
    .general = 1,
    .infer = prelu_infer,
    .params = prelu_params,
    .op = CT_OP_EXPR,
    .attributes = prelu_attributes,
};
