/* Convolution (cross-correlation): torch.nn.Conv1d, Conv2d and Conv3d.  Zeros that differ before
 * and after, and other modes of padding, are a `pad` layer before it.  The initialization is
 * PyTorch's default, or one of those that papers and torchvision use. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

enum { INIT_DEFAULT, INIT_HE_FAN_OUT, INIT_HE_FAN_IN, INIT_TRUNC_NORMAL };
enum { BIAS_DEFAULT, BIAS_ZERO };

typedef struct {
  int64_t out;
  int64_t kernel[3], stride[3], dilation[3];
  ct_opt_doubles_t padding; /* ct__layer_window_sides() */
  int padding_mode;
  int64_t groups;
  int bias;
  int init, bias_init;
} conv_t;

#define ROWS(SIZE, order)                                                                        \
  CT_OPT_INT(conv_t, out, NULL, 1, 1 << 24, "output channels"),                                  \
      SIZE(conv_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order),              \
      SIZE(conv_t, stride, "1", 1, 4096, "pixels from window to window"),                        \
      {"padding",                                                                                \
       CT_OPT_T_DOUBLES,                                                                         \
       offsetof(conv_t, padding),                                                                \
       "0",                                                                                      \
       0,                                                                                        \
       4096,                                                                                     \
       0,                                                                                        \
       "pixels on each side; a list of two numbers for each dimension: before and after"},       \
      CT_OPT_CHOICE(conv_t, padding_mode, "zeros", "zeros|reflect|replicate|circular",           \
                    "what the padding holds"),                                                   \
      SIZE(conv_t, dilation, "1", 1, 4096, "pixels from tap to tap"),                            \
      CT_OPT_INT(conv_t, groups, "1", 1, 1 << 24,                                                \
                 "groups of channels that are convolved separately"),                            \
      CT_OPT_BOOL(conv_t, bias, "true", "add a trained bias per channel"),                       \
      CT_OPT_CHOICE(conv_t, init, "default", "default|he_fan_out|he_fan_in|trunc_normal",        \
                    "initial weights: PyTorch's default; normal (He et al. 2015) by fan-out or " \
                    "fan-in; truncated normal with variance 1 / fan-in and zero bias"),          \
      CT_OPT_CHOICE(conv_t, bias_init, "default", "default|zero",                                \
                    "initial bias: PyTorch's default, or zero"),                                 \
      CT_OPT_END

static const ct_opt_t rows1[] = {ROWS(CT_OPT_SINGLE, "steps")};
static const ct_opt_t rows2[] = {ROWS(CT_OPT_PAIR, "rows, columns")};
static const ct_opt_t rows3[] = {ROWS(CT_OPT_TRIPLE, "depth, rows, columns")};

/* Returns 1 if the padding is zeros, as many before as after. */
static int is_even(const conv_t *o, int space, const int64_t before[3], const int64_t after[3])
{
  int same = o->padding_mode == 0, none = 1;
  for (int i = 0; i < space; i++) {
    same &= before[i] == after[i];
    none &= before[i] == 0 && after[i] == 0;
  }
  return same || none;
}

/* Takes out padding that the op does not have: the options of a `pad` layer. */
static int conv_pads(void *opts, const ct_shape_t *in, char *text, size_t cap)
{
  static const char *const mode[] = {"constant", "reflect", "replicate", "circular"};
  int rc = CT_OK, space = in->ndim - 2;
  int64_t before[3], after[3];
  conv_t *o = opts;
  ct_str_t list = {0};
  text[0] = '\0';
  if (space < 1 || space > 3) return CT_OK; /* infer() will report it */
  CT_TRY(ct__layer_window_sides(&o->padding, space, before, after));
  if (is_even(o, space, before, after)) return CT_OK;
  for (int i = space - 1; i >= 0; i--)
    CT_TRY(ct_str_add(&list, "%s%" PRId64 ", %" PRId64, i < space - 1 ? ", " : "", before[i],
                      after[i]));
  CT_TRY(ct_text_format(text, cap, "{pad: [%s], mode: %s}", list.data, mode[o->padding_mode]));
  o->padding.v[0] = 0;
  o->padding.n = 1;
out:
  ct_str_clear(&list);
  return rc;
}

static int conv_infer(int space, const conv_t *o, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t after[3];
  ct__layer_window_t w = {.space = space};
  CT_TRY(ct__layer_want_space(in, space));
  CT_TRY(ct__layer_window_sides(&o->padding, space, w.padding, after));
  if (in->dim[1] % o->groups || o->out % o->groups)
    CT_FAIL(CT_ERR_SHAPE,
            "%" PRId64 " groups must divide both its %" PRId64 " input and its %" PRId64
            " output channels",
            o->groups, in->dim[1], o->out);
  for (int i = 0; i < space; i++) {
    w.kernel[i] = o->kernel[i];
    w.stride[i] = o->stride[i];
    w.dilation[i] = o->dilation[i];
  }
  CT_TRY(ct__layer_window_infer(&w, in, o->out, out));
out:
  return rc;
}

static int infer1(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return conv_infer(1, opts, in, out);
}

static int infer2(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return conv_infer(2, opts, in, out);
}

static int infer3(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return conv_infer(3, opts, in, out);
}

static int conv_params(const void *opts, const ct_shape_t *in,
                       ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const conv_t *o = opts;
  int space = in->ndim - 2;
  int64_t taps = 1, in_channels = in->dim[1] / o->groups;
  int64_t dim[CT_MAX_DIMS] = {o->out, in_channels};
  for (int i = 0; i < space; i++) {
    dim[2 + i] = o->kernel[i];
    taps *= o->kernel[i];
  }
  spec[0] = ct__layer_uniform("weight", ct_shape_dims(2 + space, dim), in_channels * taps);
  spec[1] = ct__layer_uniform("bias", ct_shape(1, o->out), in_channels * taps);
  if (o->init == INIT_HE_FAN_OUT || o->init == INIT_HE_FAN_IN) {
    int64_t channels = o->init == INIT_HE_FAN_OUT ? o->out : in_channels;
    spec[0].init = CT_INIT_NORMAL;
    spec[0].scale = sqrt(2 / ((double)channels * (double)taps));
  }
  if (o->init == INIT_TRUNC_NORMAL) {
    spec[0].init = CT_INIT_TRUNC_NORMAL;
    spec[0].scale = 1 / sqrt((double)in_channels * (double)taps);
  }
  if (o->bias_init == BIAS_ZERO || o->init == INIT_TRUNC_NORMAL) spec[1].init = CT_INIT_ZERO;
  return o->bias ? 2 : 1;
}

static void conv_attributes(const void *opts, ct_op_desc_t *d)
{
  const conv_t *o = opts;
  int space = d->x.ndim - 2;
  ct__layer_window_ints(space, o->kernel, d->u.conv.kernel);
  ct__layer_window_ints(space, o->stride, d->u.conv.stride);
  for (int i = 0; i < space; i++) /* sides are equal here */
    d->u.conv.pad[i] = (int)o->padding.v[o->padding.n == 1           ? 0
                                         : o->padding.n == 2 * space ? 2 * i
                                                                     : i];
  ct__layer_window_ints(space, o->dilation, d->u.conv.dilate);
  d->u.conv.groups = (int)o->groups;
  d->u.conv.bias = o->bias;
}

#define KIND(n, what)                                                                \
  const ct_layer_ops_t ct__layer_conv##n##d = {.kind = "conv" #n "d",                \
                                               .help = #n "-D convolution of " what, \
                                               .opts_bytes = sizeof(conv_t),         \
                                               .opts = rows##n,                      \
                                               .inputs = 1,                          \
                                               .pads = conv_pads,                    \
                                               .infer = infer##n,                    \
                                               .params = conv_params,                \
                                               .op = CT_OP_CONV,                     \
                                               .attributes = conv_attributes};

KIND(1, "sequences")
KIND(2, "images")
KIND(3, "volumes")
