/* max(x, 0): torch.nn.ReLU.  Not one of layer_act.c, as plans merge it into the op before it, for
 * which it is an op of its own. */
#include "model/layer_usual.h"

static void lower(const void *opts, int index, const ct_shape_t *in, const ct_shape_t *out,
                  ct_op_desc_t *d)
{
  (void)opts;
  (void)index;
  ct_op_desc_init(d, CT_OP_RELU, in, out);
}

const ct_layer_ops_t ct__layer_relu = {
    .kind = "relu",
    .help = "max(x, 0)",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .infer = ct__layer_same_shape,
    .params = ct__layer_no_params,
    .lower = lower,
};
