/* torch.nn.Flatten: N x anything -> N x features.  To the plan it is a change of layout; nothing is
 * moved if the layouts agree. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int flatten_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  (void)opts;
  *out = ct_shape(2, in->dim[0], ct_shape_sample(in));
  return CT_OK;
}

const ct_layer_ops_t ct__layer_flatten = {
    .kind = "flatten",
    .help = "flattens each sample to one row: N x features",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .infer = flatten_infer,
    .op = CT_OP_REORDER,
};
