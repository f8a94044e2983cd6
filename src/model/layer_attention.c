/* Self-attention: torch.nn.MultiheadAttention(batch_first) of a sequence with itself, with the same
 * parameter names and initialization.  It is one op; the backend decides which intermediate results
 * are saved. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t heads;
} attention_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(attention_t, heads, NULL, 1, 1 << 16, "attention heads; must divide the features"),
    CT_OPT_END};

static int attention_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const attention_t *o = opts;
  CT_TRY(ct__layer_want_sequence(in));
  if (in->dim[2] % o->heads)
    CT_FAIL(CT_ERR_SHAPE, "%" PRId64 " heads must divide its %" PRId64 " features", o->heads,
            in->dim[2]);
  *out = *in;
out:
  return rc;
}

/* PyTorch's initialization: Xavier uniform for the three stacked projections, Linear's default for
 * the output projection, zero biases. */
static int attention_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  int64_t d = in->dim[2];
  (void)opts;
  spec[0] = ct__layer_xavier("in_proj_weight", 3 * d, d);
  spec[1] = (ct_param_spec_t){.suffix = "in_proj_bias", .shape = ct_shape(1, 3 * d)};
  spec[2] = ct__layer_uniform("out_proj.weight", ct_shape(2, d, d), d);
  spec[3] = (ct_param_spec_t){.suffix = "out_proj.bias", .shape = ct_shape(1, d)};
  return 4;
}

static void attention_attributes(const void *opts, ct_op_desc_t *d)
{
  const attention_t *o = opts;
  d->u.attention.heads = (int)o->heads;
}

const ct_layer_ops_t ct__layer_attention = {
    .kind = "attention",
    .help = "multi-head self-attention of a sequence",
    .opts_bytes = sizeof(attention_t),
    .opts = rows,
    .inputs = 1,
    .infer = attention_infer,
    .params = attention_params,
    .op = CT_OP_ATTENTION,
    .attributes = attention_attributes,
};
