/* Fake quantization to int8, with a range that follows the training batches.  Not available in
 * `model.layers`: ct_observe.h inserts these layers. */
#include "model/layer_usual.h"

static int fake_quant_params(const void *opts, const ct_shape_t *in,
                             ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  (void)opts;
  (void)in;
  spec[0] = (ct_param_spec_t){"range", ct_shape(1, 2), CT_INIT_ZERO, 0, 1};
  return 1;
}

const ct_layer_ops_t ct__layer_fake_quant = {
    .kind = "fake_quant",
    .help = "fake quantization to int8",
    .opts_bytes = sizeof(int),
    .opts = ct__layer_no_options,
    .inputs = 1,
    .params = fake_quant_params,
    .op = CT_OP_FAKE_QUANT,
};
