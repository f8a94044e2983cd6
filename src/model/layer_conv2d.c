/* 2-D cross-correlation: torch.nn.Conv2d with zero padding. */
#include "model/layer_common.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

enum { INIT_DEFAULT, INIT_HE_FAN_OUT, INIT_TRUNC_NORMAL };

typedef struct {
  int64_t out;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups;
  int bias;
  int init;
} conv_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(conv_t, out, NULL, 1, 1 << 24, "output channels"),
    CT_OPT_PAIR(conv_t, kernel, NULL, 1, 4096, "size of the window, in pixels: rows, columns"),
    CT_OPT_PAIR(conv_t, stride, "1", 1, 4096, "pixels from window to window"),
    CT_OPT_PAIR(conv_t, padding, "0", 0, 4096, "zeros on each side, in pixels"),
    CT_OPT_PAIR(conv_t, dilation, "1", 1, 4096, "pixels from tap to tap"),
    CT_OPT_INT(conv_t, groups, "1", 1, 1 << 24, "groups of channels that do not see each other"),
    CT_OPT_BOOL(conv_t, bias, "true", "add a trained bias per channel"),
    CT_OPT_CHOICE(
        conv_t, init, "default", "default|he_fan_out|trunc_normal",
        "initial weights: as torch.nn.Conv2d; normal by He et al. 2015 (fan out); truncated "
        "normal, 1 / fan in, no bias"),
    CT_OPT_END};

static int infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const conv_t *o = opts;
  CT_TRY(ct__want_image(in));
  if (in->dim[1] % o->groups || o->out % o->groups)
    CT_FAIL(CT_ERR_SHAPE,
            "%" PRId64 " groups must divide both its %" PRId64 " input and its %" PRId64
            " output channels",
            o->groups, in->dim[1], o->out);
  ct__window_t w = {{o->kernel[0], o->kernel[1]},
                    {o->stride[0], o->stride[1]},
                    {o->padding[0], o->padding[1]},
                    {o->dilation[0], o->dilation[1]}};
  CT_TRY(ct__window_infer(&w, in, o->out, out));
out:
  return rc;
}

static int params(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const conv_t *o = opts;
  int64_t taps = o->kernel[0] * o->kernel[1], in_channels = in->dim[1] / o->groups;
  spec[0] = ct__uniform_param(
      "weight", ct_shape(4, o->out, in_channels, o->kernel[0], o->kernel[1]), in_channels * taps);
  spec[1] = ct__uniform_param("bias", ct_shape(1, o->out), in_channels * taps);
  if (o->init == INIT_HE_FAN_OUT) {
    spec[0].init = CT_INIT_NORMAL;
    spec[0].scale = sqrt(2 / ((double)o->out * (double)taps));
  }
  if (o->init == INIT_TRUNC_NORMAL) {
    spec[0].init = CT_INIT_TRUNC_NORMAL;
    spec[0].scale = 1 / sqrt((double)in_channels * (double)taps);
    spec[1].init = CT_INIT_ZERO;
  }
  return o->bias ? 2 : 1;
}

static void lower(const void *opts, int index, const ct_shape_t *in, const ct_shape_t *out,
                  ct_op_desc_t *d)
{
  const conv_t *o = opts;
  (void)index;
  ct_op_desc_init(d, CT_OP_CONV, in, out);
  ct__pair_to_int(o->kernel, d->u.conv.kernel);
  ct__pair_to_int(o->stride, d->u.conv.stride);
  ct__pair_to_int(o->padding, d->u.conv.pad);
  ct__pair_to_int(o->dilation, d->u.conv.dilate);
  d->u.conv.groups = (int)o->groups;
  d->u.conv.bias = o->bias;
}

const ct_layer_ops_t ct__layer_conv2d = {
    .kind = "conv2d",
    .help = "2-D convolution of images",
    .opts_bytes = sizeof(conv_t),
    .opts = rows,
    .inputs = 1,
    .infer = infer,
    .params = params,
    .lower = lower,
};
