/* max(x, 0): torch.nn.ReLU.  Not one of layer_act.c, as plans merge it into the op before it, for
 * which it is an op of its own. */
#include "model/layer_usual.h"

const ct_layer_ops_t ct__layer_relu = {
    .kind = "relu",
    .help = "max(x, 0)",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .op = CT_OP_RELU,
};
