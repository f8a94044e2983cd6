/* MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018),
 * width 1, with the parameter names and initialization of torchvision. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/ct_err.h"

/* Rows of table 2: expansion factor, output channels, number of blocks, stride of the first. */
static const struct {
  int expand, out, blocks, stride;
} stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

typedef struct conv {
  int64_t out;
  int kernel, stride, depthwise;
} conv_t;

/* Adds a convolution and a batch normalisation, named \a conv and \a norm, and if \a act is not
 * NULL a ReLU6. */
static int add_conv(ct_graph_t *g, int *id, const char *conv, const char *norm, conv_t c,
                    const char *act)
{
  int rc = CT_OK;
  CT_TRY(ct_graph_add(g, id, conv, "conv2d", *id, -2,
                      "out: %" PRId64 ", kernel: %d, stride: %d, padding: %d, groups: %" PRId64
                      ", bias: false, init: he_fan_out",
                      c.out, c.kernel, c.stride, c.kernel / 2, c.depthwise ? c.out : (int64_t)1));
  CT_TRY(ct_graph_add(g, id, norm, "batchnorm", *id, -2, NULL));
  if (act) CT_TRY(ct_graph_add(g, id, act, "relu6", *id, -2, NULL));
out:
  return rc;
}

/* Adds a block: 1x1 expansion (unless expand is 1), depthwise 3x3, 1x1 projection, and a shortcut
 * if the shape does not change. */
static int add_block(ct_graph_t *g, int *id, int number, int expand, int out, int stride)
{
  int rc = CT_OK, before = *id;
  int64_t in = g->layer[*id].out.dim[1], wide = in * expand;
  CT_TRY(ct_graph_prefix(g, "features.%d.conv.", number));
  if (expand > 1) {
    CT_TRY(add_conv(g, id, "0.0", "0.1", (conv_t){wide, 1, 1, 0}, "0.2"));
    CT_TRY(add_conv(g, id, "1.0", "1.1", (conv_t){wide, 3, stride, 1}, "1.2"));
    CT_TRY(add_conv(g, id, "2", "3", (conv_t){out, 1, 1, 0}, NULL));
  } else {
    CT_TRY(add_conv(g, id, "0.0", "0.1", (conv_t){wide, 3, stride, 1}, "0.2"));
    CT_TRY(add_conv(g, id, "1", "2", (conv_t){out, 1, 1, 0}, NULL));
  }
  if (stride > 1 || in != out) return CT_OK;
  CT_TRY(ct_graph_prefix(g, "features.%d.", number));
  CT_TRY(ct_graph_add(g, id, "add", "add", *id, before, NULL));
out:
  return rc;
}

static int mobilenet_v2_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1, number = 1;
  CT_TRY(ct_graph_prefix(g, "features.0."));
  CT_TRY(add_conv(g, &id, "0", "1", (conv_t){32, 3, 2, 0}, "2"));
  for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++)
    for (int b = 0; b < stages[s].blocks; b++)
      CT_TRY(add_block(g, &id, number++, stages[s].expand, stages[s].out,
                       b == 0 ? stages[s].stride : 1));
  CT_TRY(ct_graph_prefix(g, "features.18."));
  CT_TRY(add_conv(g, &id, "0", "1", (conv_t){1280, 1, 1, 0}, "2"));
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "avgpool", "global_avgpool", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "classifier.0", "dropout", id, -2, "p: %.17g",
                      o->dropout < 0 ? 0.2 : o->dropout));
  CT_TRY(ct_graph_add(g, &id, "classifier.1", "linear", id, -2,
                      "out: %" PRId64 ", weight_std: 0.01, bias_init: zero", classes));
out:
  return rc;
}

const ct_family_t ct__family_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .depths = "",
    .help = "MobileNetV2 with width multiplier 1",
    .build = mobilenet_v2_build,
};
