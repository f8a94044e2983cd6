/* N x D x H x W -> N x (1 + HW) x D: a trained class token, then the pixels of the image, with a
 * trained position embedding added to each.  As in torchvision's VisionTransformer, the name of the
 * class token has no prefix. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int tokens_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  (void)opts;
  CT_TRY(ct__layer_want_space(in, 2));
  *out = ct_shape(3, in->dim[0], 1 + in->dim[2] * in->dim[3], in->dim[1]);
out:
  return rc;
}

static int tokens_params(const void *opts, const ct_shape_t *in,
                         ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  int64_t tokens = 1 + in->dim[2] * in->dim[3], d = in->dim[1];
  (void)opts;
  spec[0] = (ct_param_spec_t){.suffix = "class_token", .shape = ct_shape(3, 1, 1, d)};
  spec[1] = (ct_param_spec_t){.suffix = "pos_embedding",
                              .shape = ct_shape(3, 1, tokens, d),
                              .init = CT_INIT_NORMAL,
                              .scale = 0.02};
  return 2;
}

static const char *prefix(const void *opts, int slot)
{
  (void)opts;
  return slot == 0 ? "" : NULL;
}

const ct_layer_ops_t ct__layer_tokens = {
    .kind = "tokens",
    .help = "a class token and the pixels of an image as a sequence, with position embeddings",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .infer = tokens_infer,
    .params = tokens_params,
    .prefix = prefix,
    .op = CT_OP_TOKENS,
};
