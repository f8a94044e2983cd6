/* Residual networks (He et al., "Deep residual learning for image recognition", 2015), with the
 * topology, parameter names and initialization of torchvision.
 *
 * Depths 18, 34, 50, 101 and 152 are the ImageNet models: four stages; bottleneck blocks from 50
 * on, with the stride in the 3x3 convolution ("v1.5", as torchvision).  Images under 64 pixels get
 * a 3x3 stem with stride 1 and without max-pool instead of the 7x7 stem, as is common for CIFAR,
 * unless model.stem is set.
 *
 * Depths 20, 32, 44, 56 and 110 are the CIFAR models (section 4.2): three stages of 16, 32 and 64
 * channels.  Where a stage changes the shape, the shortcut is a 1x1 convolution (option B of the
 * paper, `downsample`).  The paper's own CIFAR models use option A, which pads with zero channels
 * and has 2,752 parameters less. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/ct_err.h"

enum { STAGES = 4, STEM_PIXELS = 64, USUAL_DEPTH = 18 };

typedef struct net {
  int depth;
  int width;          /* channels of the first stage; each later one has twice as many */
  int expansion;      /* output channels of a block / width: 4 for bottlenecks */
  int blocks[STAGES]; /* number of blocks per stage; 0: the network has fewer stages */
} net_t;

static const net_t nets[] = {
    {18, 64, 1, {2, 2, 2, 2}},     {34, 64, 1, {3, 4, 6, 3}},   {50, 64, 4, {3, 4, 6, 3}},
    {101, 64, 4, {3, 4, 23, 3}},   {152, 64, 4, {3, 8, 36, 3}}, {20, 16, 1, {3, 3, 3, 0}},
    {32, 16, 1, {5, 5, 5, 0}},     {44, 16, 1, {7, 7, 7, 0}},   {56, 16, 1, {9, 9, 9, 0}},
    {110, 16, 1, {18, 18, 18, 0}},
};

/* Adds a convolution with "same" padding, and its batch normalisation. */
static int add_conv_bn(ct_graph_t *g, int *id, const char *conv, const char *bn, int out,
                       int kernel, int stride)
{
  int rc = CT_OK;
  CT_TRY(ct_graph_add(g, id, conv, "conv2d", *id, -2,
                      "out: %d, kernel: %d, stride: %d, padding: %d, bias: false, init: he_fan_out",
                      out, kernel, stride, kernel / 2));
  CT_TRY(ct_graph_add(g, id, bn, "batchnorm", *id, -2, NULL));
out:
  return rc;
}

/* Adds the branch of a basic block, conv-bn-relu-conv-bn, or of a bottleneck,
 * conv-bn-relu-conv-bn-relu-conv-bn. */
static int add_branch(ct_graph_t *g, int *id, int width, int expansion, int stride)
{
  int rc = CT_OK;
  if (expansion == 1) {
    CT_TRY(add_conv_bn(g, id, "conv1", "bn1", width, 3, stride));
    CT_TRY(ct_graph_add(g, id, "relu1", "relu", *id, -2, NULL));
    CT_TRY(add_conv_bn(g, id, "conv2", "bn2", width, 3, 1));
  } else {
    CT_TRY(add_conv_bn(g, id, "conv1", "bn1", width, 1, 1));
    CT_TRY(ct_graph_add(g, id, "relu1", "relu", *id, -2, NULL));
    CT_TRY(add_conv_bn(g, id, "conv2", "bn2", width, 3, stride));
    CT_TRY(ct_graph_add(g, id, "relu2", "relu", *id, -2, NULL));
    CT_TRY(add_conv_bn(g, id, "conv3", "bn3", width * expansion, 1, 1));
  }
out:
  return rc;
}

/* Adds a block.  The shortcut is added after the branch, because `downsample` comes last in
 * torchvision's state dict. */
static int add_block(ct_graph_t *g, int *id, int width, int expansion, int stride)
{
  int rc = CT_OK, shortcut = *id, out = width * expansion;
  int changes = stride != 1 || g->layer[*id].out.dim[1] != out;
  CT_TRY(add_branch(g, id, width, expansion, stride));
  if (changes) CT_TRY(add_conv_bn(g, &shortcut, "downsample.0", "downsample.1", out, 1, stride));
  CT_TRY(ct_graph_add(g, id, "add", "add", *id, shortcut, NULL));
  CT_TRY(ct_graph_add(g, id, "relu", "relu", *id, -2, NULL));
out:
  return rc;
}

static int is_small(const ct_shape_t *sample)
{
  return sample->ndim < 4 || sample->dim[2] < STEM_PIXELS || sample->dim[3] < STEM_PIXELS;
}

static int add_stem(ct_graph_t *g, int *id, const net_t *n, int stem)
{
  int rc = CT_OK, four = n->blocks[STAGES - 1] > 0;
  int large = stem == CT_STEM_AUTO ? four && !is_small(&g->input) : stem == CT_STEM_IMAGENET;
  if (stem == CT_STEM_IMAGENET && !four)
    CT_FAIL(CT_ERR_USAGE,
            "model.stem: depth %d is a network for CIFAR; the stem for ImageNet is of "
            "depths 18, 34, 50, 101 and 152",
            n->depth);
  CT_TRY(add_conv_bn(g, id, "conv1", "bn1", n->width, large ? 7 : 3, large ? 2 : 1));
  CT_TRY(ct_graph_add(g, id, "relu", "relu", *id, -2, NULL));
  if (large)
    CT_TRY(ct_graph_add(g, id, "maxpool", "maxpool", *id, -2, "kernel: 3, stride: 2, padding: 1"));
out:
  return rc;
}

static const net_t *find_net(int64_t depth)
{
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
    if (nets[i].depth == depth) return &nets[i];
  return NULL;
}

static int resnet_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  const net_t *n = find_net(o->depth);
  if (!n) CT_FAIL(CT_ERR_ARG, "unknown depth %" PRId64, o->depth);
  CT_TRY(add_stem(g, &id, n, o->stem));
  for (int s = 0; s < STAGES; s++)
    for (int b = 0; b < n->blocks[s]; b++) {
      CT_TRY(ct_graph_prefix(g, "layer%d.%d.", s + 1, b));
      CT_TRY(add_block(g, &id, n->width << s, n->expansion, s > 0 && b == 0 ? 2 : 1));
    }
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "avgpool", "global_avgpool", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "fc", "linear", id, -2, "out: %" PRId64, classes));
out:
  return rc;
}

static const char *resnet_remark(const ct_model_opts_t *o, const ct_shape_t *sample)
{
  const net_t *n = find_net(o->depth ? o->depth : USUAL_DEPTH);
  if (o->stem || !n || !n->blocks[STAGES - 1] || !is_small(sample)) return NULL;
  return "images under 64 pixels: resnet takes the stem for CIFAR, 3x3 of stride 1 without "
         "max-pool "
         "(model.stem: imagenet for the other)";
}

const ct_family_t ct__family_resnet = {
    .name = "resnet",
    .depths = "18|34|50|101|152|20|32|44|56|110",
    .depth = USUAL_DEPTH,
    .help = "residual network; depths 20, 32, 44, 56, 110 (three stages) are for CIFAR",
    .build = resnet_build,
    .remark = resnet_remark,
};
