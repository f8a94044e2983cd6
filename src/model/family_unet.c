/* U-Net (Ronneberger et al., "U-Net: convolutional networks for biomedical image segmentation",
 * 2015) of sequences, images and volumes, with the topology and parameter names of
 * milesial/Pytorch-UNet: two convolutions with padding per level, max-pooling on the way down, a
 * transposed convolution (or interpolation) and a concatenation on the way up.  With interpolation
 * the level below has half as many channels, as there.  Initial values are PyTorch's defaults. */
#include "model/ct_family.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

enum { LEVELS = 12 };

typedef struct net {
  ct_graph_t *g;
  const ct_model_opts_t *o;
  int space;                 /* dims of an image: 1 to 3 */
  int levels;                /* times that the size is halved */
  int64_t width[LEVELS + 1]; /* channels of each level */
  int skip[LEVELS];          /* layers that the way up concatenates */
} net_t;

static const char *const conv[] = {"conv1d", "conv2d", "conv3d"};
static const char *const pool[] = {"maxpool1d", "maxpool", "maxpool3d"};
static const char *const transposed[] = {"conv_transpose1d", "conv_transpose2d",
                                         "conv_transpose3d"};

static int add_norm(const net_t *n, int *id, const char *name)
{
  switch (n->o->norm) {
  case CT_NORM_BATCH:
    return ct_graph_add(n->g, id, name, "batchnorm", *id, -2, NULL);
  case CT_NORM_INSTANCE:
    return ct_graph_add(n->g, id, name, "instancenorm", *id, -2, "affine: true");
  case CT_NORM_GROUP:
    return ct_graph_add(n->g, id, name, "groupnorm", *id, -2, "num_groups: %" PRId64, n->o->groups);
  default:
    return CT_OK;
  }
}

/* Adds a 3x3 convolution to the same size. */
static int add_conv(const net_t *n, int *id, const char *name, int64_t out)
{
  static const char *const mode[] = {"zeros", "reflect", "replicate", "circular"};
  static const char *const sides[] = {"1, 1", "1, 1, 1, 1", "1, 1, 1, 1, 1, 1"};
  int rc = CT_OK, padding = n->o->padding_mode;
  char pad[CT_NAME_MAX];
  if (padding) {
    CT_TRY(ct_text_format(pad, sizeof pad, "%s.pad", name));
    CT_TRY(ct_graph_add(n->g, id, pad, "pad", *id, -2, "pad: [%s], mode: %s", sides[n->space - 1],
                        mode[padding]));
  }
  CT_TRY(ct_graph_add(n->g, id, name, conv[n->space - 1], *id, -2,
                      "out: %" PRId64 ", kernel: 3, padding: %d, bias: %s", out, !padding,
                      n->o->norm == CT_NORM_NONE ? "true" : "false"));
out:
  return rc;
}

/* Adds two times convolution, normalisation, ReLU. */
static int add_two(const net_t *n, int *id, int64_t middle, int64_t out)
{
  static const char *const names[2][3] = {{"0", "1", "2"}, {"3", "4", "5"}};
  int rc = CT_OK;
  for (int i = 0; i < 2; i++) {
    CT_TRY(add_conv(n, id, names[i][0], i ? out : middle));
    CT_TRY(add_norm(n, id, names[i][1]));
    CT_TRY(ct_graph_add(n->g, id, names[i][2], "relu", *id, -2, NULL));
  }
out:
  return rc;
}

/* Adds the way down from level i - 1 to level i. */
static int add_down(const net_t *n, int *id, int i)
{
  int rc = CT_OK, narrow = n->o->upsample == CT_UPSAMPLE_LINEAR && i == n->levels;
  CT_TRY(ct_graph_prefix(n->g, "down%d.maxpool_conv.", i));
  CT_TRY(ct_graph_add(n->g, id, "0", pool[n->space - 1], *id, -2, "kernel: 2"));
  CT_TRY(ct_graph_prefix(n->g, "down%d.maxpool_conv.1.double_conv.", i));
  int64_t out = n->width[narrow ? i - 1 : i];
  CT_TRY(add_two(n, id, out, out));
out:
  return rc;
}

/* Adds the way up to level i. */
static int add_up(const net_t *n, int *id, int i)
{
  int rc = CT_OK, number = n->levels - i, linear = n->o->upsample == CT_UPSAMPLE_LINEAR;
  CT_TRY(ct_graph_prefix(n->g, "up%d.", number));
  if (linear)
    CT_TRY(ct_graph_add(n->g, id, "up", "upsample", *id, -2,
                        "scale: 2, mode: linear, align_corners: true"));
  else
    CT_TRY(ct_graph_add(n->g, id, "up", transposed[n->space - 1], *id, -2,
                        "out: %" PRId64 ", kernel: 2, stride: 2", n->width[i]));
  CT_TRY(ct_graph_add(n->g, id, "cat", "concat", n->skip[i], *id, "dim: 1"));
  CT_TRY(ct_graph_prefix(n->g, "up%d.conv.double_conv.", number));
  CT_TRY(add_two(n, id, n->width[i], n->width[linear && i > 0 ? i - 1 : i]));
out:
  return rc;
}

/* Sets levels and widths from model.depth and model.widths. */
static int set_widths(net_t *n)
{
  int rc = CT_OK, given = n->o->widths.n;
  if (given < 1)
    CT_FAIL(CT_ERR_USAGE, "model.widths: give the width of the first level, or of all");
  if (given > 1 && n->o->depth && n->o->depth != given - 1)
    CT_FAIL(CT_ERR_USAGE,
            "model.widths has %d widths, but model.depth %" PRId64 " needs one or %" PRId64, given,
            n->o->depth, n->o->depth + 1);
  n->levels = given > 1 ? given - 1 : n->o->depth ? (int)n->o->depth : 4;
  if (n->levels > LEVELS)
    CT_FAIL(CT_ERR_USAGE, "model.depth: at most %d levels below the first, not %d", LEVELS,
            n->levels);
  for (int i = 0; i <= n->levels; i++) {
    double w = given > 1 ? n->o->widths.v[i] : n->o->widths.v[0] * (double)(1 << i);
    if (!(w >= 1 && w <= 1 << 24 && w == (double)(int64_t)w))
      CT_FAIL(CT_ERR_USAGE, "model.widths: expected whole numbers from 1 to 2^24, not %g", w);
    n->width[i] = (int64_t)w;
  }
out:
  return rc;
}

static int unet_check(net_t *n)
{
  int rc = CT_OK;
  n->space = n->g->input.ndim - 2;
  if (n->space < 1 || n->space > 3)
    CT_FAIL(CT_ERR_SHAPE, "needs images (C x H x W), volumes (C x D x H x W) or C x L");
  CT_TRY(set_widths(n));
  for (int i = 0; i < n->space; i++)
    if (n->g->input.dim[2 + i] % (1 << n->levels))
      CT_FAIL(CT_ERR_SHAPE,
              "%d levels need a size that is a multiple of %d, not %" PRId64
              ": crop, pad or resize the samples, or set model.depth",
              n->levels, 1 << n->levels, n->g->input.dim[2 + i]);
out:
  return rc;
}

static int unet_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  net_t n = {.g = g, .o = o};
  CT_TRY(unet_check(&n));
  CT_TRY(ct_graph_prefix(g, "inc.double_conv."));
  CT_TRY(add_two(&n, &id, n.width[0], n.width[0]));
  for (int i = 1; i <= n.levels; i++) {
    n.skip[i - 1] = id;
    CT_TRY(add_down(&n, &id, i));
  }
  for (int i = n.levels - 1; i >= 0; i--)
    CT_TRY(add_up(&n, &id, i));
  CT_TRY(ct_graph_prefix(g, NULL));
  CT_TRY(ct_graph_add(g, &id, "outc.conv", conv[n.space - 1], id, -2, "out: %" PRId64 ", kernel: 1",
                      classes));
out:
  return rc;
}

const ct_family_t ct__family_unet = {
    .name = "unet",
    .depths = "",
    .help = "U-Net with `depth` (4) halvings of the size; options widths, norm, groups, "
            "upsample, padding_mode",
    .build = unet_build,
};
