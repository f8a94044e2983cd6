/* Vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", 2020), with the
 * topology, parameter names and initialization of torchvision's VisionTransformer.  The default is
 * a small network for images of 32 pixels; vit_b_16 is {depth: 12, patch: 16, dim: 768,
 * heads: 12}.
 *
 * With `head: field` there is no class token, and the last linear layer computes from each token
 * the outputs of its patch, row by row and each with all channels (MAE, He et al. 2021; ClimaX,
 * Nguyen et al. 2023). */
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
  if (g->input.dim[2] % o->patch[0] || g->input.dim[3] % o->patch[1])
    CT_FAIL(CT_ERR_SHAPE, "model.patch: %" PRId64 " x %" PRId64 " does not divide the image",
            o->patch[0], o->patch[1]);
  if (o->dim % o->heads)
    CT_FAIL(CT_ERR_USAGE, "model.heads: %" PRId64 " does not divide model.dim, %" PRId64, o->heads,
            o->dim);
out:
  return rc;
}

/* Adds the tokens, with a class token or, of a field, without. */
static int add_tokens(ct_graph_t *g, int *id, const ct_model_opts_t *o)
{
  int rc = CT_OK, place;
  CT_TRY(ct_graph_add(g, id, "conv_proj", "conv2d", *id, -2,
                      "out: %" PRId64 ", kernel: [%" PRId64 ", %" PRId64 "], stride: [%" PRId64
                      ", %" PRId64 "], init: trunc_normal",
                      o->dim, o->patch[0], o->patch[1], o->patch[0], o->patch[1]));
  if (o->head == CT_VIT_CLASS) return ct_graph_add(g, id, "encoder", "tokens", *id, -2, NULL);
  const ct_shape_t *x = &g->layer[*id].out;
  int64_t tokens = x->dim[2] * x->dim[3];
  CT_TRY(ct_graph_add(g, id, "rows", "flatten", *id, -2, "start_dim: 2"));
  CT_TRY(ct_graph_add(g, id, "tokens", "permute", *id, -2, "dims: [0, 2, 1]"));
  CT_TRY(ct_graph_add(g, &place, "encoder.pos_embedding", "parameter", -2, -2,
                      "shape: [1, %" PRId64 ", %" PRId64 "], std: 0.02", tokens, o->dim));
  CT_TRY(ct_graph_add(g, id, "encoder", "add", *id, place, NULL));
out:
  return rc;
}

/* Adds the head. */
static int add_head(ct_graph_t *g, int *id, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK;
  const int64_t *size = g->input.dim + 2, *p = o->patch;
  if (o->head == CT_VIT_CLASS)
    CT_TRY(ct_graph_add(g, id, "class_place", "select", *id, -2, "index: 0"));
  CT_TRY(ct_graph_add(g, id, "heads.head", "linear", *id, -2, "out: %" PRId64 ", init: zero",
                      o->head == CT_VIT_CLASS ? classes : classes * p[0] * p[1]));
  if (o->head == CT_VIT_CLASS) return CT_OK;
  CT_TRY(ct_graph_add(g, id, "patches", "reshape", *id, -2,
                      "shape: [N, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]",
                      size[0] / p[0], size[1] / p[1], p[0], p[1], classes));
  CT_TRY(ct_graph_add(g, id, "places", "permute", *id, -2, "dims: [0, 5, 1, 3, 2, 4]"));
  CT_TRY(ct_graph_add(g, id, "field", "reshape", *id, -2,
                      "shape: [N, %" PRId64 ", %" PRId64 ", %" PRId64 "]", classes, size[0],
                      size[1]));
out:
  return rc;
}

static int vit_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  CT_TRY(vit_check(g, o));
  CT_TRY(add_tokens(g, &id, o));
  for (int i = 0; i < o->depth; i++) {
    CT_TRY(ct_graph_prefix(g, "encoder.layers.encoder_layer_%d.", i));
    CT_TRY(add_attention(g, &id, o));
    CT_TRY(add_mlp(g, &id, o));
  }
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "encoder.ln", "layernorm", id, -2, "eps: 1e-6"));
  CT_TRY(add_head(g, &id, o, classes));
out:
  return rc;
}

const ct_family_t ct__family_vit = {
    .name = "vit",
    .depths = "",
    .depth = 4,
    .help = "vision transformer of `depth` layers; options patch, dim, heads, mlp, head",
    .build = vit_build,
};
