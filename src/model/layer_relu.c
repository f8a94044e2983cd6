/* torch.nn.ReLU: max(x, 0).  Not in layer_act.c, because it has an op of its own, which plans fuse
 * into the op before it. */
#include "model/layer_usual.h"

const ct_layer_ops_t ct__layer_relu = {
    .kind = "relu",
    .help = "max(x, 0)",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .general = 1,
    .op = CT_OP_RELU,
};
