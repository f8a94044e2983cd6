/* Vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", 2020), with the
 * topology, parameter names and initialization of torchvision's VisionTransformer.  The default is
 * a small network for images of 32 pixels; vit_b_16 is {depth: 12, patch: 16, dim: 768,
 * heads: 12}. */
#include "model/ct_family.h"

#include <inttypes.h>

#include "base/ct_err.h"

/* Adds x + attention(norm(x)). */
static int add_attention(ct_graph_t *g, int *id, const ct_model_opts_t *o)
{
  int rc = CT_OK, x = *id;
  CT_TRY(ct_graph_add(g, id, "ln_1", "layernorm", *id, -2, "eps: 1e-6"));
  CT_TRY(ct_graph_add(g, id, "self_attention", "attention", *id, -2, "heads: %" PRId64, o->heads));
  CT_TRY(ct_graph_add(g, id, "add_1", "add", *id, x, NULL));
out:
  return rc;
}

/* Adds x + mlp(norm(x)). */
static int add_mlp(ct_graph_t *g, int *id, const ct_model_opts_t *o)
{
  int rc = CT_OK, x = *id;
  int64_t wide = o->mlp ? o->mlp : 4 * o->dim;
  CT_TRY(ct_graph_add(g, id, "ln_2", "layernorm", *id, -2, "eps: 1e-6"));
  CT_TRY(ct_graph_add(g, id, "mlp.0", "linear", *id, -2, "out: %" PRId64 ", init: xavier", wide));
  CT_TRY(ct_graph_add(g, id, "mlp.1", "gelu", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, "mlp.3", "linear", *id, -2, "out: %" PRId64 ", init: xavier", o->dim));
  CT_TRY(ct_graph_add(g, id, "add_2", "add", *id, x, NULL));
out:
  return rc;
}

static int vit_check(const ct_graph_t *g, const ct_model_opts_t *o)
{
  int rc = CT_OK;
  if (g->input.ndim != 4) CT_FAIL(CT_ERR_SHAPE, "needs images (C x H x W)");
  if (g->input.dim[2] % o->patch || g->input.dim[3] % o->patch)
    CT_FAIL(CT_ERR_SHAPE, "model.patch: %" PRId64 " does not divide the image", o->patch);
  if (o->dim % o->heads)
    CT_FAIL(CT_ERR_USAGE, "model.heads: %" PRId64 " does not divide model.dim, %" PRId64, o->heads,
            o->dim);
out:
  return rc;
}

static int vit_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  CT_TRY(vit_check(g, o));
  CT_TRY(ct_graph_add(g, &id, "conv_proj", "conv2d", id, -2,
                      "out: %" PRId64 ", kernel: %" PRId64 ", stride: %" PRId64
                      ", init: trunc_normal",
                      o->dim, o->patch, o->patch));
  CT_TRY(ct_graph_add(g, &id, "encoder", "tokens", id, -2, NULL));
  for (int i = 0; i < o->depth; i++) {
    CT_TRY(ct_graph_prefix(g, "encoder.layers.encoder_layer_%d.", i));
    CT_TRY(add_attention(g, &id, o));
    CT_TRY(add_mlp(g, &id, o));
  }
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "encoder.ln", "layernorm", id, -2, "eps: 1e-6"));
  CT_TRY(ct_graph_add(g, &id, "class_place", "select", id, -2, "index: 0"));
  CT_TRY(ct_graph_add(g, &id, "heads.head", "linear", id, -2, "out: %" PRId64 ", init: zero",
                      classes));
out:
  return rc;
}

const ct_family_t ct__family_vit = {
    .name = "vit",
    .depths = "",
    .depth = 4,
    .help = "vision transformer of `depth` layers; options patch, dim, heads, mlp",
    .build = vit_build,
};
