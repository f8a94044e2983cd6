/* torch.nn.LayerNorm over the last dim.  Each step of a sequence is normalised separately, so the
 * result does not depend on ranks or batch size. */
#include "model/layer_usual.h"

typedef struct {
  double eps;
} layernorm_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(layernorm_t, eps, "1e-5", 1e-12, 1, "added to the variance"), CT_OPT_END};

static int layernorm_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  ct_shape_t features = ct_shape(1, in->dim[in->ndim - 1]);
  (void)opts;
  spec[0] = (ct_param_spec_t){.suffix = "weight", .shape = features, .init = CT_INIT_ONE};
  spec[1] = (ct_param_spec_t){.suffix = "bias", .shape = features, .init = CT_INIT_ZERO};
  return 2;
}

static void layernorm_attributes(const void *opts, ct_op_desc_t *d)
{
  const layernorm_t *o = opts;
  d->u.lnorm.eps = o->eps;
}

const ct_layer_ops_t ct__layer_layernorm = {
    .kind = "layernorm",
    .help = "normalisation over the last dimension, with trained scale and shift",
    .opts_bytes = sizeof(layernorm_t),
    .opts = rows,
    .inputs = 1,
    .params = layernorm_params,
    .op = CT_OP_LNORM,
    .attributes = layernorm_attributes,
};
