/* max(x, 0): torch.nn.ReLU. */
#include "model/layer_common.h"

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
    .opts_bytes = 0,
    .opts = ct__no_options,
    .inputs = 1,
    .infer = ct__same_shape,
    .params = ct__no_params,
    .lower = lower,
};
