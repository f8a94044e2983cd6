/* Convolution (cross-correlation): torch.nn.Conv1d, Conv2d and Conv3d.  Zeros that differ before
 * and after, and other modes of padding, are a `pad` layer before it.  The initialization is
 * PyTorch's default, or one of those that papers and torchvision use. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

typedef struct {
  int64_t out;
  int64_t kernel[3], stride[3], dilation[3];
  ct_opt_texts_t padding; /* numbers, "same" or "valid": conv_sides() */
  ct_opt_texts_t padding_mode;
  int64_t groups;
  int bias;
  int init, bias_init;
} conv_t;

#define ROWS(SIZE, order)                                                                        \
  CT_OPT_INT(conv_t, out, NULL, 1, 1 << 24, "output channels"),                                  \
      SIZE(conv_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order),              \
      SIZE(conv_t, stride, "1", 1, 4096, "pixels from window to window"),                        \
      CT_OPT_TEXTS(conv_t, padding, "0",                                                         \
                   "pixels on each side, up to 4096; a list of two numbers for each dimension: " \
                   "before and after; same: as many as keep the size; valid: none"),             \
      CT_OPT_TEXTS(conv_t, padding_mode, "zeros",                                                \
                   "what the padding holds: zeros, reflect, replicate or circular; or one word " \
                   "for each dimension, such as [zeros, circular] on a sphere"),                 \
      SIZE(conv_t, dilation, "1", 1, 4096, "pixels from tap to tap"),                            \
      CT_OPT_INT(conv_t, groups, "1", 1, 1 << 24,                                                \
                 "groups of channels that are convolved separately"),                            \
      CT_OPT_BOOL(conv_t, bias, "true", "add a trained bias per channel"),                       \
      CT__LAYER_CONV_INIT(conv_t), CT_OPT_END

static const ct_opt_t rows1[] = {ROWS(CT_OPT_SINGLE, "steps")};
static const ct_opt_t rows2[] = {ROWS(CT_OPT_PAIR, "rows, columns")};
static const ct_opt_t rows3[] = {ROWS(CT_OPT_TRIPLE, "depth, rows, columns")};

static const char *const edges[] = {"zeros", "reflect", "replicate", "circular"};
static const char *const pad_modes[] = {"constant", "reflect", "replicate", "circular"};

/* Returns the mode of the padding of dim i in *mode, an index of edges[]. */
static int edge_of(const conv_t *o, int space, int i, int *mode)
{
  int rc = CT_OK;
  const ct_opt_texts_t *list = &o->padding_mode;
  if (list->n != 1 && list->n != space)
    CT_FAIL(CT_ERR_SHAPE, "padding_mode: expected one word, or one for each of %d dims, not %d",
            space, list->n);
  const char *word = list->v[list->n == 1 ? 0 : i];
  for (*mode = 0; *mode < 4; ++*mode)
    if (strcmp(word, edges[*mode]) == 0) return CT_OK;
  CT_FAIL(CT_ERR_SHAPE, "padding_mode: expected zeros, reflect, replicate or circular, not '%.40s'",
          word);
out:
  return rc;
}

/* The padding "same": the output has the size of the input. */
static int same_sides(const conv_t *o, int space, int64_t before[3], int64_t after[3])
{
  int rc = CT_OK;
  for (int i = 0; i < space; i++) {
    int64_t all = o->dilation[i] * (o->kernel[i] - 1);
    if (o->stride[i] != 1) CT_FAIL(CT_ERR_SHAPE, "padding: same is for stride 1 only");
    before[i] = all / 2;
    after[i] = all - before[i];
  }
out:
  return rc;
}

/* Returns the padding before and after each dim. */
static int conv_sides(const conv_t *o, int space, int64_t before[3], int64_t after[3])
{
  int rc = CT_OK, n = o->padding.n, each = n == 2 * space && n != 1;
  int64_t v[6] = {0};
  if (n == 1 && strcmp(o->padding.v[0], "same") == 0) return same_sides(o, space, before, after);
  int valid = n == 1 && strcmp(o->padding.v[0], "valid") == 0;
  if (n != 1 && n != space && !each)
    CT_FAIL(CT_ERR_SHAPE,
            "padding: expected one number, one for each of %d dims, or two for each, not %d", space,
            n);
  for (int i = 0; i < n && !valid; i++)
    if (ct_text_int(o->padding.v[i], &v[i]) != CT_OK || v[i] < 0 || v[i] > 4096)
      CT_FAIL(CT_ERR_SHAPE,
              "padding: expected a whole number up to 4096, same or valid, not '%.40s'",
              o->padding.v[i]);
  for (int i = 0; i < space; i++) {
    before[i] = v[n == 1 ? 0 : each ? 2 * i : i];
    after[i] = each ? v[2 * i + 1] : before[i];
  }
out:
  return rc;
}

/* Stores the padding that is left for the op. */
static int set_padding(conv_t *o, int space, const int64_t pad[3])
{
  int rc = CT_ERR_NOMEM;
  ct_opt_texts_t list = {ct_mem_array(space, sizeof *list.v, "a list of texts"), 0};
  char number[24];
  for (; list.v && list.n < space; list.n++) {
    ct_text_fit(number, sizeof number, "%" PRId64, pad[list.n]);
    list.v[list.n] = ct_mem_strdup(number);
    if (!list.v[list.n]) break;
  }
  if (list.n == space) {
    ct_opt_texts_t old = o->padding;
    o->padding = list;
    list = old;
    rc = CT_OK;
  }
  for (int i = 0; i < list.n; i++)
    ct_mem_free(list.v[i]);
  ct_mem_free(list.v);
  return rc;
}

/* Takes out padding that the op does not have, the options of a `pad` layer: in dims whose padding
 * is not zeros, or not as many before as after. */
static int conv_pads(void *opts, const ct_shape_t *in, char *text, size_t cap)
{
  int rc = CT_OK, space = in->ndim - 2, mode;
  int64_t before[3], after[3], left[3];
  conv_t *o = opts;
  ct_str_t list = {0}, modes = {0};
  text[0] = '\0';
  if (space < 1 || space > 3) return CT_OK; /* infer() will report it */
  CT_TRY(conv_sides(o, space, before, after));
  int outer = space; /* the first dim that the layer pads */
  for (int i = space - 1; i >= 0; i--) {
    CT_TRY(edge_of(o, space, i, &mode));
    int own = (mode == 0 && before[i] == after[i]) || before[i] + after[i] == 0;
    left[i] = own ? before[i] : 0;
    if (!own) outer = i;
  }
  for (int i = space - 1; i >= outer; i--) {
    const char *comma = i < space - 1 ? ", " : "";
    CT_TRY(edge_of(o, space, i, &mode));
    CT_TRY(ct_str_add(&list, "%s%" PRId64 ", %" PRId64, comma, before[i] - left[i],
                      after[i] - left[i]));
    CT_TRY(ct_str_add(&modes, "%s%s", comma, pad_modes[mode]));
  }
  if (outer < space)
    CT_TRY(ct_text_format(text, cap, "{pad: [%s], mode: [%s]}", list.data, modes.data));
  CT_TRY(set_padding(o, space, left));
out:
  ct_str_clear(&list);
  ct_str_clear(&modes);
  return rc;
}

static int conv_infer(int space, const conv_t *o, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t after[3];
  ct__layer_window_t w = {.space = space};
  CT_TRY(ct__layer_want_space(in, space));
  CT_TRY(conv_sides(o, space, w.padding, after));
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
  ct__layer_conv_init(o->init, o->bias_init, spec);
  return o->bias ? 2 : 1;
}

static void conv_attributes(const void *opts, ct_op_desc_t *d)
{
  const conv_t *o = opts;
  int space = d->x.ndim - 2;
  ct__layer_window_ints(space, o->kernel, d->u.conv.kernel);
  ct__layer_window_ints(space, o->stride, d->u.conv.stride);
  int64_t before[3] = {0}, after[3];
  (void)conv_sides(o, space, before, after); /* it succeeded before, and sides are equal here */
  ct__layer_window_ints(space, before, d->u.conv.pad);
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
