/* Concatenates two layers along the channels, torch.cat((a, b), 1), or two sequences along the
 * features, torch.cat((a, b), 2).  A layer has at most two inputs, so more are concatenated by a
 * chain of layers. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int concat_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, fit = in[0].ndim == in[1].ndim && in[0].ndim >= 2, along = ct_op_concat_dim(in);
  char a[80], b[80];
  (void)opts;
  for (int i = 0; i < in[0].ndim; i++)
    fit &= i == along || in[0].dim[i] == in[1].dim[i];
  if (!fit)
    CT_FAIL(CT_ERR_SHAPE, "needs two inputs that differ in %s only, but they are %s and %s",
            along == 2 ? "features" : "channels", ct_shape_text(&in[0], a, sizeof a),
            ct_shape_text(&in[1], b, sizeof b));
  *out = in[0];
  out->dim[along] += in[1].dim[along];
out:
  return rc;
}

const ct_layer_ops_t ct__layer_concat = {
    .kind = "concat",
    .help =
        "concatenates the channels of two layers, or the features of two sequences: from: [a, b]",
    .opts = ct__layer_no_options,
    .inputs = 2,
    .infer = concat_infer,
    .op = CT_OP_CONCAT,
};
