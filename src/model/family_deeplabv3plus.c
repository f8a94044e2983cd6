/* DeepLabv3+ as the reference of MLPerf HPC's benchmark DeepCAM has it, with its parameter names
 * and initial values: an Xception with output stride 16 (Chen et al., "Encoder-decoder with atrous
 * separable convolution for semantic image segmentation", 2018) and a decoder of transposed
 * convolutions, which brings the output to the size of the input.
 *
 * The reference's ReLUs work in place.  Therefore the low-level features, which it takes before a
 * ReLU, are rectified.  Its blocks begin without a ReLU, and the first and the last block end
 * without one. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/ct_err.h"

enum { STRIDE = 16 };

/* A block of separable convolutions. */
typedef struct block {
  int out, convs; /* channels; separable convolutions with normalisation */
  int stride;     /* of one more separable convolution after them; 0: there is none */
  int late;       /* 1: the last convolution changes the channels; 0: the first */
  int relu;       /* 1: a ReLU after the sum */
} block_t;

/* Adds a convolution without bias, then a batch normalisation and a ReLU unless their names are
 * NULL. */
static int add_conv(ct_graph_t *g, int *id, const char *kind, const char *name, const char *norm,
                    const char *act, int64_t out, const char *opts)
{
  int rc = CT_OK;
  CT_TRY(ct_graph_add(g, id, name, kind, *id, -2, "out: %" PRId64 ", %s, bias: false", out, opts));
  if (norm) CT_TRY(ct_graph_add(g, id, norm, "batchnorm", *id, -2, NULL));
  if (act) CT_TRY(ct_graph_add(g, id, act, "relu", *id, -2, NULL));
out:
  return rc;
}

/* Adds a depthwise 3x3 convolution NAME.conv1 and a 1x1 convolution NAME.pointwise. */
static int add_separable(ct_graph_t *g, int *id, const char *name, int64_t out, int stride,
                         int dilation)
{
  int rc = CT_OK;
  char full[40];
  int64_t in = g->layer[*id].out.dim[1];
  snprintf(full, sizeof full, "%s.conv1", name);
  CT_TRY(ct_graph_add(g, id, full, "conv2d", *id, -2,
                      "out: %" PRId64 ", groups: %" PRId64
                      ", kernel: 3, padding: %d, dilation: %d, stride: %d, bias: false, "
                      "init: he_fan_in",
                      in, in, dilation, dilation, stride));
  snprintf(full, sizeof full, "%s.pointwise", name);
  CT_TRY(add_conv(g, id, "conv2d", full, NULL, NULL, out, "kernel: 1, init: he_fan_in"));
out:
  return rc;
}

/* Adds the separable convolutions of a block, rep.0, rep.1, …: each with a normalisation and,
 * except the last, a ReLU. */
static int add_rep(ct_graph_t *g, int *id, const block_t *b)
{
  int rc = CT_OK, at = 0;
  char name[40];
  int64_t in = g->layer[*id].out.dim[1];
  for (int i = 0; i < b->convs; i++, at += 3) {
    snprintf(name, sizeof name, "rep.%d", at);
    CT_TRY(add_separable(g, id, name, b->late && i < b->convs - 1 ? in : b->out, 1, 1));
    snprintf(name, sizeof name, "rep.%d.bn", at + 1);
    CT_TRY(ct_graph_add(g, id, name, "batchnorm", *id, -2, NULL));
    snprintf(name, sizeof name, "rep.%d", at + 2);
    if (i < b->convs - 1) CT_TRY(ct_graph_add(g, id, name, "relu", *id, -2, NULL));
  }
  snprintf(name, sizeof name, "rep.%d", at - 1);
  if (b->stride) CT_TRY(add_separable(g, id, name, b->out, b->stride, 1));
out:
  return rc;
}

static int add_block(ct_graph_t *g, int *id, int number, block_t b)
{
  int rc = CT_OK, skip = *id;
  char opts[60];
  CT_TRY(ct_graph_prefix(g, "xception_features.block%d.", number));
  snprintf(opts, sizeof opts, "kernel: 1, stride: %d, init: he_fan_in", b.stride);
  if (b.stride) CT_TRY(add_conv(g, &skip, "conv2d", "skip", "skipbn.bn", NULL, b.out, opts));
  CT_TRY(add_rep(g, id, &b));
  CT_TRY(ct_graph_add(g, id, "add", "add", *id, skip, NULL));
  if (b.relu) CT_TRY(ct_graph_add(g, id, "relu", "relu", *id, -2, NULL));
out:
  return rc;
}

/* Adds the encoder; *low is the layer with the low-level features, at a quarter of the size. */
static int add_xception(ct_graph_t *g, int *id, int middle, int *low)
{
  int rc = CT_OK;
  CT_TRY(ct_graph_prefix(g, "xception_features."));
  CT_TRY(add_conv(g, id, "conv2d", "conv1", "bn1.bn", "relu1", 32,
                  "kernel: 3, stride: 2, padding: 1, init: he_fan_in"));
  CT_TRY(add_conv(g, id, "conv2d", "conv2", "bn2.bn", "relu2", 64,
                  "kernel: 3, padding: 1, init: he_fan_in"));
  CT_TRY(add_block(g, id, 1, (block_t){128, 2, 2, 0, 1}));
  *low = *id;
  CT_TRY(add_block(g, id, 2, (block_t){256, 2, 2, 0, 1}));
  CT_TRY(add_block(g, id, 3, (block_t){728, 2, 2, 0, 1}));
  for (int i = 0; i < middle; i++)
    CT_TRY(add_block(g, id, 4 + i, (block_t){728, 3, 0, 0, 1}));
  CT_TRY(add_block(g, id, 4 + middle, (block_t){1024, 2, 1, 1, 0}));
  CT_TRY(ct_graph_prefix(g, "xception_features."));
  for (int i = 3; i <= 5; i++) {
    char name[3][20];
    snprintf(name[0], sizeof name[0], "conv%d", i);
    snprintf(name[1], sizeof name[1], "bn%d.bn", i);
    snprintf(name[2], sizeof name[2], "relu%d", i);
    CT_TRY(add_separable(g, id, name[0], i == 5 ? 2048 : 1536, 1, 2));
    CT_TRY(ct_graph_add(g, id, name[1], "batchnorm", *id, -2, NULL));
    CT_TRY(ct_graph_add(g, id, name[2], "relu", *id, -2, NULL));
  }
out:
  return rc;
}

/* Adds the features of the whole image: mean, convolution, a trained scale and shift per channel,
 * ReLU; then repeated to the size of their input. */
static int add_global(ct_graph_t *g, int *id)
{
  int rc = CT_OK, scale, shift;
  const int64_t height = g->layer[*id].out.dim[2], width = g->layer[*id].out.dim[3];
  CT_TRY(ct_graph_prefix(g, "bottleneck.global_avg_pool.global_average_pool."));
  CT_TRY(ct_graph_add(g, id, "0", "global_avgpool", *id, -2, NULL));
  CT_TRY(add_conv(g, id, "conv2d", "1", NULL, NULL, 256, "kernel: 1"));
  CT_TRY(ct_graph_add(g, &scale, "2.weights", "parameter", -2, -2, "shape: [256, 1, 1], fill: 1"));
  CT_TRY(ct_graph_add(g, id, "2.mul", "mul", *id, scale, NULL));
  CT_TRY(ct_graph_add(g, &shift, "2.bias", "parameter", -2, -2, "shape: [256, 1, 1]"));
  CT_TRY(ct_graph_add(g, id, "2.add", "add", *id, shift, NULL));
  CT_TRY(ct_graph_add(g, id, "3", "relu", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, "tile", "expand", *id, -2, "shape: [N, 256, %" PRId64 ", %" PRId64 "]",
                      height, width));
out:
  return rc;
}

/* Adds atrous spatial pyramid pooling and the convolution of its five results. */
static int add_bottleneck(ct_graph_t *g, int *id)
{
  static const char *const window[] = {"kernel: 1", "kernel: 3, padding: 6, dilation: 6",
                                       "kernel: 3, padding: 12, dilation: 12",
                                       "kernel: 3, padding: 18, dilation: 18"};
  int rc = CT_OK, in = *id, one, all = -1;
  char opts[80];
  for (int i = 0; i < 5; i++) {
    one = in;
    CT_TRY(ct_graph_prefix(g, "bottleneck.aspp%d.", i + 1));
    if (i < 4) snprintf(opts, sizeof opts, "%s, init: he_fan_in", window[i]);
    if (i < 4)
      CT_TRY(add_conv(g, &one, "conv2d", "atrous_convolution", "bn.bn", "relu", 256, opts));
    else
      CT_TRY(add_global(g, &one));
    CT_TRY(ct_graph_prefix(g, "bottleneck.cat%d.", i));
    if (i) CT_TRY(ct_graph_add(g, &all, "concat", "concat", all, one, NULL));
    if (!i) all = one;
  }
  *id = all;
  CT_TRY(ct_graph_prefix(g, "bottleneck."));
  CT_TRY(add_conv(g, id, "conv2d", "conv", "bn.bn", "relu", 256, "kernel: 1"));
out:
  return rc;
}

static int add_decoder(ct_graph_t *g, int *id, int low, int64_t classes)
{
  static const char *const twice = "kernel: 3, stride: 2, padding: 1, output_padding: 1",
                           *const same = "kernel: 3, padding: 1", *const up = "conv_transpose2d";
  int rc = CT_OK;
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(add_conv(g, &low, "conv2d", "conv2", "bn2.bn", "relu", 48, "kernel: 1"));
  CT_TRY(ct_graph_prefix(g, "upsample."));
  CT_TRY(add_conv(g, id, up, "deconv1.0", "deconv1.1.bn", "deconv1.2", 256, twice));
  CT_TRY(add_conv(g, id, up, "deconv1.3", "deconv1.4.bn", "deconv1.5", 256, twice));
  CT_TRY(ct_graph_add(g, id, "cat", "concat", *id, low, NULL));
  CT_TRY(add_conv(g, id, "conv2d", "conv1.0", "conv1.1.bn", "conv1.2", 256, same));
  CT_TRY(add_conv(g, id, "conv2d", "conv1.3", "conv1.4.bn", "conv1.5", 256, same));
  CT_TRY(ct_graph_add(g, id, "conv1.6", "conv2d", *id, -2, "out: 256, kernel: 1"));
  CT_TRY(add_conv(g, id, up, "deconv2.0", "deconv2.1.bn", "deconv2.2", 256, twice));
  CT_TRY(add_conv(g, id, up, "last_deconv.0", NULL, NULL, classes, twice));
out:
  return rc;
}

static int deeplabv3plus_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1, low;
  if (g->input.ndim != 4) CT_FAIL(CT_ERR_SHAPE, "needs images (C x H x W)");
  if (g->input.dim[2] % STRIDE || g->input.dim[3] % STRIDE)
    CT_FAIL(CT_ERR_SHAPE,
            "height and width must be multiples of %d: crop, pad or resize the samples", STRIDE);
  CT_TRY(add_xception(g, &id, (int)o->depth, &low));
  CT_TRY(add_bottleneck(g, &id));
  CT_TRY(add_decoder(g, &id, low, classes));
out:
  return rc;
}

const ct_family_t ct__family_deeplabv3plus = {
    .name = "deeplabv3plus",
    .depths = "",
    .depth = 16,
    .help = "DeepLabv3+ of MLPerf HPC's DeepCAM; `depth`: blocks of the middle flow",
    .build = deeplabv3plus_build,
};
