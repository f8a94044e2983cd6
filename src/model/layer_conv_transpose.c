/* Transposed convolution: torch.nn.ConvTranspose1d, 2d and 3d. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t out;
  int64_t kernel[3], stride[3], padding[3], output_padding[3], dilation[3];
  int64_t groups;
  int bias;
  int init, bias_init;
} convt_t;

#define ROWS(SIZE, order)                                                            \
  CT_OPT_INT(convt_t, out, NULL, 1, 1 << 24, "output channels"),                     \
      SIZE(convt_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order), \
      SIZE(convt_t, stride, "1", 1, 4096, "output pixels from window to window"),    \
      SIZE(convt_t, padding, "0", 0, 4096, "output pixels cut off on each side"),    \
      SIZE(convt_t, output_padding, "0", 0, 4096,                                    \
           "output pixels added at the end; less than the stride"),                  \
      CT_OPT_INT(convt_t, groups, "1", 1, 1 << 24,                                   \
                 "groups of channels that are convolved separately"),                \
      SIZE(convt_t, dilation, "1", 1, 4096, "output pixels from tap to tap"),        \
      CT_OPT_BOOL(convt_t, bias, "true", "add a trained bias per channel"),          \
      CT__LAYER_CONV_INIT(convt_t), CT_OPT_END

static const ct_opt_t rows1[] = {ROWS(CT_OPT_SINGLE, "steps")};
static const ct_opt_t rows2[] = {ROWS(CT_OPT_PAIR, "rows, columns")};
static const ct_opt_t rows3[] = {ROWS(CT_OPT_TRIPLE, "depth, rows, columns")};

/* Returns the size of an output along a dim. */
static int64_t convt_size(const convt_t *o, int i, int64_t in)
{
  return (in - 1) * o->stride[i] - 2 * o->padding[i] + o->dilation[i] * (o->kernel[i] - 1) +
         o->output_padding[i] + 1;
}

static int convt_infer(int space, const convt_t *o, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t dim[CT_MAX_DIMS] = {in->dim[0], o->out};
  char shape[80];
  CT_TRY(ct__layer_want_space(in, space));
  if (in->dim[1] % o->groups || o->out % o->groups)
    CT_FAIL(CT_ERR_SHAPE,
            "%" PRId64 " groups must divide both its %" PRId64 " input and its %" PRId64
            " output channels",
            o->groups, in->dim[1], o->out);
  for (int i = 0; i < space; i++) {
    if (o->output_padding[i] >= o->stride[i])
      CT_FAIL(CT_ERR_SHAPE, "output_padding %" PRId64 " must be smaller than its stride %" PRId64,
              o->output_padding[i], o->stride[i]);
    dim[2 + i] = convt_size(o, i, in->dim[2 + i]);
    if (dim[2 + i] < 1)
      CT_FAIL(CT_ERR_SHAPE,
              "padding %" PRId64 " cuts off the whole output of its input %s in dim %d",
              o->padding[i], ct_shape_text(in, shape, sizeof shape), 2 + i);
  }
  *out = ct_shape_dims(2 + space, dim);
out:
  return rc;
}

static int infer1(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return convt_infer(1, opts, in, out);
}

static int infer2(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return convt_infer(2, opts, in, out);
}

static int infer3(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return convt_infer(3, opts, in, out);
}

/* PyTorch's fan-in of a transposed convolution counts its outputs: dim 1 of the weight. */
static int convt_params(const void *opts, const ct_shape_t *in,
                        ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const convt_t *o = opts;
  int space = in->ndim - 2;
  int64_t fan = o->out / o->groups;
  int64_t dim[CT_MAX_DIMS] = {in->dim[1], o->out / o->groups};
  for (int i = 0; i < space; i++) {
    dim[2 + i] = o->kernel[i];
    fan *= o->kernel[i];
  }
  spec[0] = ct__layer_uniform("weight", ct_shape_dims(2 + space, dim), fan);
  spec[1] = ct__layer_uniform("bias", ct_shape(1, o->out), fan);
  ct__layer_conv_init(o->init, o->bias_init, spec);
  return o->bias ? 2 : 1;
}

static void convt_attributes(const void *opts, ct_op_desc_t *d)
{
  const convt_t *o = opts;
  int space = d->x.ndim - 2;
  ct__layer_window_ints(space, o->kernel, d->u.conv.kernel);
  ct__layer_window_ints(space, o->stride, d->u.conv.stride);
  ct__layer_window_ints(space, o->padding, d->u.conv.pad);
  ct__layer_window_ints(space, o->dilation, d->u.conv.dilate);
  d->u.conv.groups = (int)o->groups;
  d->u.conv.bias = o->bias;
}

#define KIND(n, what)                                                                           \
  const ct_layer_ops_t ct__layer_conv_transpose##n##d = {.kind = "conv_transpose" #n "d",       \
                                                         .help =                                \
                                                             "transposed convolution of " what, \
                                                         .opts_bytes = sizeof(convt_t),         \
                                                         .opts = rows##n,                       \
                                                         .inputs = 1,                           \
                                                         .infer = infer##n,                     \
                                                         .params = convt_params,                \
                                                         .op = CT_OP_CONVT,                     \
                                                         .attributes = convt_attributes};

KIND(1, "sequences")
KIND(2, "images")
KIND(3, "volumes")
