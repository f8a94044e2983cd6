/* DenseNet-BC (Huang et al., "Densely connected convolutional networks", 2016), with the parameter
 * names and initialization of torchvision.  Each dense layer reads the concatenation of its block's
 * input and the outputs of all earlier layers of the block; each layer adds one `concat` to it. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/ct_err.h"

enum { BLOCKS = 4, BOTTLENECK = 4 };

typedef struct net {
  int depth;
  int growth; /* channels that a layer adds */
  int first;  /* channels of the stem */
  int layers[BLOCKS];
} net_t;

static const net_t nets[] = {{121, 32, 64, {6, 12, 24, 16}},
                             {169, 32, 64, {6, 12, 32, 32}},
                             {201, 32, 64, {6, 12, 48, 32}},
                             {161, 48, 96, {6, 12, 36, 24}}};

static int add_conv(ct_graph_t *g, int *id, const char *name, int64_t out, const char *window)
{
  return ct_graph_add(g, id, name, "conv2d", *id, -2,
                      "out: %" PRId64 ", %s, bias: false, init: he_fan_in", out, window);
}

/* Adds a dense layer: norm-relu-conv1x1-norm-relu-conv3x3, concatenated with its input. */
static int add_dense(ct_graph_t *g, int *id, int growth, double dropout)
{
  int rc = CT_OK, before = *id;
  CT_TRY(ct_graph_add(g, id, "norm1", "batchnorm", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, "relu1", "relu", *id, -2, NULL));
  CT_TRY(add_conv(g, id, "conv1", BOTTLENECK * growth, "kernel: 1"));
  CT_TRY(ct_graph_add(g, id, "norm2", "batchnorm", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, "relu2", "relu", *id, -2, NULL));
  CT_TRY(add_conv(g, id, "conv2", growth, "kernel: 3, padding: 1"));
  if (dropout > 0) CT_TRY(ct_graph_add(g, id, "dropout", "dropout", *id, -2, "p: %.17g", dropout));
  CT_TRY(ct_graph_add(g, id, "concat", "concat", before, *id, NULL));
out:
  return rc;
}

/* Adds a transition, which halves channels, height and width. */
static int add_transition(ct_graph_t *g, int *id, int block)
{
  int rc = CT_OK;
  CT_TRY(ct_graph_prefix(g, "features.transition%d.", block));
  CT_TRY(ct_graph_add(g, id, "norm", "batchnorm", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, "relu", "relu", *id, -2, NULL));
  CT_TRY(add_conv(g, id, "conv", g->layer[*id].out.dim[1] / 2, "kernel: 1"));
  CT_TRY(ct_graph_add(g, id, "pool", "avgpool", *id, -2, "kernel: 2"));
out:
  return rc;
}

static int add_block(ct_graph_t *g, int *id, const net_t *n, int block, double dropout)
{
  int rc = CT_OK;
  for (int i = 0; i < n->layers[block]; i++) {
    CT_TRY(ct_graph_prefix(g, "features.denseblock%d.denselayer%d.", block + 1, i + 1));
    CT_TRY(add_dense(g, id, n->growth, dropout));
  }
  if (block < BLOCKS - 1) CT_TRY(add_transition(g, id, block + 1));
out:
  return rc;
}

static int densenet_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  const net_t *n = NULL;
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
    if (nets[i].depth == o->depth) n = &nets[i];
  if (!n) CT_FAIL(CT_ERR_ARG, "unknown depth %" PRId64, o->depth);
  CT_TRY(ct_graph_prefix(g, "features."));
  CT_TRY(add_conv(g, &id, "conv0", n->first, "kernel: 7, stride: 2, padding: 3"));
  CT_TRY(ct_graph_add(g, &id, "norm0", "batchnorm", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "relu0", "relu", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "pool0", "maxpool", id, -2, "kernel: 3, stride: 2, padding: 1"));
  for (int b = 0; b < BLOCKS; b++)
    CT_TRY(add_block(g, &id, n, b, o->dropout));
  CT_TRY(ct_graph_prefix(g, "features."));
  CT_TRY(ct_graph_add(g, &id, "norm5", "batchnorm", id, -2, NULL));
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "relu", "relu", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "avgpool", "global_avgpool", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "classifier", "linear", id, -2, "out: %" PRId64 ", bias_init: zero",
                      classes));
out:
  return rc;
}

const ct_family_t ct__family_densenet = {
    .name = "densenet",
    .depths = "121|169|201|161",
    .depth = 121,
    .help = "DenseNet; images must have at least 32 pixels per side",
    .build = densenet_build,
};
