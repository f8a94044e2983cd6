/* Sum of two layers of the same shape: the shortcut of a residual block.  There is no broadcasting,
 * because shapes that only fit by chance are a mistake in the model. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int add_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char a[80], b[80];
  (void)opts;
  if (!ct_shape_same(&in[0], &in[1]))
    CT_FAIL(CT_ERR_SHAPE, "needs two inputs of one shape, but they are %s and %s",
            ct_shape_text(&in[0], a, sizeof a), ct_shape_text(&in[1], b, sizeof b));
  *out = in[0];
out:
  return rc;
}

const ct_layer_ops_t ct__layer_add = {
    .kind = "add",
    .help = "sum of two layers: from: [a, b]",
    .opts = ct__layer_no_options,
    .inputs = 2,
    .infer = add_infer,
    .op = CT_OP_ADD,
};
