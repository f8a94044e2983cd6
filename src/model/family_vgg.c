/* VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
 * recognition", 2014), with the parameter names and initialization of torchvision; `vgg_bn` has a
 * batch normalisation after each convolution.  Images of any size from 32 pixels on are pooled to
 * 7x7 for the classifier. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/ct_err.h"

enum { STAGES = 5 };

typedef struct net {
  int depth;
  int convs[STAGES];
} net_t;

static const net_t nets[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};

/* Appends a layer of torchvision's `features` or `classifier`, in which all layers are numbered. */
static int vgg_add(ct_graph_t *g, int *id, const char *part, int *number, const char *kind,
                   const char *opts)
{
  int rc = CT_OK;
  char name[CT_NAME_MAX];
  CT_TRY(ct_text_format(name, sizeof name, "%s.%d", part, (*number)++));
  CT_TRY(ct_graph_add(g, id, name, kind, *id, -2, "%s", opts));
out:
  return rc;
}

static int add_features(ct_graph_t *g, int *id, const net_t *n, int batchnorm)
{
  static const int width[STAGES] = {64, 128, 256, 512, 512};
  int rc = CT_OK, number = 0;
  char opts[128];
  for (int s = 0; s < STAGES; s++) {
    CT_TRY(ct_text_format(opts, sizeof opts,
                          "out: %d, kernel: 3, padding: 1, init: he_fan_out, bias_init: zero",
                          width[s]));
    for (int i = 0; i < n->convs[s]; i++) {
      CT_TRY(vgg_add(g, id, "features", &number, "conv2d", opts));
      if (batchnorm) CT_TRY(vgg_add(g, id, "features", &number, "batchnorm", ""));
      CT_TRY(vgg_add(g, id, "features", &number, "relu", ""));
    }
    CT_TRY(vgg_add(g, id, "features", &number, "maxpool", "kernel: 2"));
  }
out:
  return rc;
}

static int add_classifier(ct_graph_t *g, int *id, double dropout, int64_t classes)
{
  int rc = CT_OK, number = 0;
  char linear[96], drop[32];
  CT_TRY(ct_text_format(drop, sizeof drop, "p: %.17g", dropout < 0 ? 0.5 : dropout));
  for (int i = 0; i < 2; i++) {
    CT_TRY(vgg_add(g, id, "classifier", &number, "linear",
                   "out: 4096, weight_std: 0.01, bias_init: zero"));
    CT_TRY(vgg_add(g, id, "classifier", &number, "relu", ""));
    CT_TRY(vgg_add(g, id, "classifier", &number, "dropout", drop));
  }
  CT_TRY(ct_text_format(linear, sizeof linear,
                        "out: %" PRId64 ", weight_std: 0.01, bias_init: zero", classes));
  CT_TRY(vgg_add(g, id, "classifier", &number, "linear", linear));
out:
  return rc;
}

static int vgg_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes, int batchnorm)
{
  int rc = CT_OK, id = -1;
  const net_t *n = NULL;
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
    if (nets[i].depth == o->depth) n = &nets[i];
  if (!n) CT_FAIL(CT_ERR_ARG, "unknown depth %" PRId64, o->depth);
  CT_TRY(add_features(g, &id, n, batchnorm));
  CT_TRY(ct_graph_add(g, &id, "avgpool", "adaptive_avgpool", id, -2, "out: 7"));
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(add_classifier(g, &id, o->dropout, classes));
out:
  return rc;
}

static int build_plain(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  return vgg_build(g, o, classes, 0);
}

static int build_bn(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  return vgg_build(g, o, classes, 1);
}

const ct_family_t ct__family_vgg = {
    .name = "vgg",
    .depths = "11|13|16|19",
    .depth = 16,
    .help = "VGG; images must have at least 32 pixels per side",
    .build = build_plain,
};

const ct_family_t ct__family_vgg_bn = {
    .name = "vgg_bn",
    .depths = "11|13|16|19",
    .depth = 16,
    .help = "VGG with batch normalisation",
    .build = build_bn,
};
