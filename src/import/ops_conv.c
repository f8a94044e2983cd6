/* Rules: convolution, pooling, resizing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/import.h"

/* ---- options ---- */

/* The options of a layer; text is NULL after an allocation failed. */
typedef struct options {
  const char *text;
} options_t;

/* Adds "key: v", unless all are the usual value. */
static void conv_sizes(ct__im_t *t, options_t *o, const char *key, int n, const int64_t *v,
                       int64_t usual)
{
  int same = 1;
  for (int i = 0; i < n; i++)
    same &= v[i] == usual;
  if (same || !o->text) return;
  const char *list = ct__im_list(t, n, v, 1);
  o->text = list ? ct__im_format(t, "%s%s%s: %s", o->text, *o->text ? ", " : "", key, list) : NULL;
}

static void conv_word(ct__im_t *t, options_t *o, const char *word)
{
  if (o->text) o->text = ct__im_format(t, "%s%s%s", o->text, *o->text ? ", " : "", word);
}

/* ---- convolution ---- */

typedef struct conv {
  int space, x, weight, bias;
  ct_shape_t y;
  int64_t out, kernel[3], stride[3], padding[6], dilation[3], groups;
  int unequal; /* padding has a number before and after each dim */
} conv_t;

/* Resolves padding="same": (kernel - 1) * dilation in all, the larger half after. */
static int conv_padding(const ct__im_t *t, const ct_pt2_node_t *n, conv_t *c)
{
  int rc = CT_OK;
  const ct_pt2_arg_t *a = ct_pt2_arg(n, "padding");
  if (!a || a->kind != CT_PT2_STRING) return ct_pt2_ints(t->g, n, "padding", c->space, c->padding);
  int64_t before[3], after[3];
  for (int i = 0; i < c->space; i++) {
    int64_t all = strcmp(a->text, "same") == 0 ? (c->kernel[i] - 1) * c->dilation[i] : 0;
    before[i] = all / 2;
    after[i] = all - all / 2;
    c->unequal |= before[i] != after[i];
  }
  for (int i = 0; i < c->space; i++) {
    if (c->unequal) c->padding[2 * i + 1] = after[i];
    c->padding[c->unequal ? 2 * i : i] = before[i];
  }
  return rc;
}

/* A pad layer before a convolution becomes part of it. */
static void conv_take_pad(ct__im_t *t, conv_t *c)
{
  long long v[6];
  char word[16] = "constant";
  const ct__im_layer_t *l = &t->layer[c->x];
  if (!ct__im_is(t, c->x, "pad") || c->unequal) return;
  for (int i = 0; i < c->space; i++)
    if (c->padding[i]) return;
  int got = c->space == 1 ? sscanf(l->opts, "pad: [%lld, %lld]", v, v + 1)
            : c->space == 2
                ? sscanf(l->opts, "pad: [%lld, %lld, %lld, %lld]", v, v + 1, v + 2, v + 3)
                : sscanf(l->opts, "pad: [%lld, %lld, %lld, %lld, %lld, %lld]", v, v + 1, v + 2,
                         v + 3, v + 4, v + 5);
  const char *end = strchr(l->opts, ']');
  if (got != 2 * c->space || !end) return;
  if (end[1]) {
    if (sscanf(end + 1, ", mode: %15[a-z]", word) != 1) return;
    if (strchr(end + 2, ',')) return; /* a value, too */
  }
  for (int i = 0; i < 2 * c->space; i++)
    if (v[i] < 0) return;
  for (int i = 0; i < c->space; i++)
    c->unequal |= v[2 * i] != v[2 * i + 1];
  /* padding of other kinds than zeros, or that is not equal, is left to the pad layer */
  if (c->unequal || strcmp(word, "constant") != 0) {
    c->unequal = 0;
    return;
  }
  for (int i = 0; i < c->space; i++)
    c->padding[i] = v[2 * (c->space - 1 - i)];
  c->x = l->in[0];
}

static int conv_read(ct__im_t *t, const ct_pt2_node_t *n, conv_t *c)
{
  int rc = CT_OK;
  ct_shape_t w;
  CT_TRY(ct__im_in(t, n, "input", 0, &c->x));
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 0, &c->weight));
  CT_TRY(ct_pt2_tensor(t->g, n, "bias", 1, &c->bias));
  CT_TRY(ct__im_result(t, n, &c->y));
  CT_TRY(ct__im_shape(t, c->weight, &w));
  if (w.ndim != c->space + 2 || c->y.ndim != w.ndim || t->layer[c->x].shape.ndim != w.ndim)
    return ct__im_refuse("its input has no dim for the batch");
  c->out = c->y.dim[1];
  for (int i = 0; i < c->space; i++)
    c->kernel[i] = w.dim[2 + i];
  CT_TRY(ct_pt2_ints(t->g, n, "stride", c->space, c->stride));
  CT_TRY(ct_pt2_ints(t->g, n, "dilation", c->space, c->dilation));
  CT_TRY(ct_pt2_int(t->g, n, "groups", &c->groups));
out:
  return rc;
}

/* Returns 1 if weight and bias can be parameters of a layer. */
static int conv_owns(const ct__im_t *t, const conv_t *c)
{
  if (!ct__im_owned(t, c->weight, CT__IM_CONV)) return 0;
  return c->bias < 0 || ct__im_owned(t, c->bias, CT__IM_CONV);
}

static void conv_common(ct__im_t *t, const conv_t *c, options_t *o)
{
  conv_sizes(t, o, "stride", c->space, c->stride, 1);
  if (c->unequal) {
    const char *list = ct__im_list(t, 2 * c->space, c->padding, 0);
    conv_word(t, o, list ? ct__im_format(t, "padding: %s", list) : NULL);
  } else {
    conv_sizes(t, o, "padding", c->space, c->padding, 0);
  }
  conv_sizes(t, o, "dilation", c->space, c->dilation, 1);
  conv_sizes(t, o, "groups", 1, &c->groups, 1);
}

/* A convolution with weights that layers compute. */
static int conv_computed(ct__im_t *t, const ct_pt2_node_t *n, conv_t *c)
{
  int rc = CT_OK, in[3] = {c->x}, ins = 2;
  options_t o = {.text = ""};
  CT_TRY(ct__im_operand(t, c->weight, &in[1]));
  if (c->bias >= 0) CT_TRY(ct__im_operand(t, c->bias, &in[ins++]));
  conv_common(t, c, &o);
  if (!o.text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_add(t, &c->x, "convolve", &c->y, ins, in, "%s", o.text));
  CT_TRY(ct__im_done(t, n, c->x));
out:
  return rc;
}

/* data: the kind, "conv2d". */
static int conv_forward(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK;
  options_t o = {.text = ""};
  conv_t c = {.space = ((const char *)data)[4] - '0'};
  CT_TRY(conv_read(t, n, &c));
  CT_TRY(conv_padding(t, n, &c));
  conv_take_pad(t, &c);
  if (!conv_owns(t, &c) || !t->layer[c.x].shape.batch) return conv_computed(t, n, &c);
  conv_sizes(t, &o, "out", 1, &c.out, -1);
  conv_sizes(t, &o, "kernel", c.space, c.kernel, -1);
  conv_common(t, &c, &o);
  if (c.bias < 0) conv_word(t, &o, "bias: no");
  if (!o.text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &c.x, data, &c.y, c.x, "%s", o.text));
  ct__im_weight(t, c.x, "weight", c.weight);
  if (c.bias >= 0) ct__im_weight(t, c.x, "bias", c.bias);
  CT_TRY(ct__im_done(t, n, c.x));
out:
  return rc;
}

/* data: the kind, "conv_transpose2d". */
static int conv_transposed(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK;
  int64_t more[3];
  options_t o = {.text = ""};
  conv_t c = {.space = ((const char *)data)[14] - '0'};
  CT_TRY(conv_read(t, n, &c));
  CT_TRY(ct_pt2_ints(t->g, n, "padding", c.space, c.padding));
  CT_TRY(ct_pt2_ints(t->g, n, "output_padding", c.space, more));
  if (!conv_owns(t, &c)) return ct__im_refuse("its weight is not a parameter");
  conv_sizes(t, &o, "out", 1, &c.out, -1);
  conv_sizes(t, &o, "kernel", c.space, c.kernel, -1);
  conv_common(t, &c, &o);
  conv_sizes(t, &o, "output_padding", c.space, more, 0);
  if (c.bias < 0) conv_word(t, &o, "bias: no");
  if (!o.text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &c.x, data, &c.y, c.x, "%s", o.text));
  ct__im_weight(t, c.x, "weight", c.weight);
  if (c.bias >= 0) ct__im_weight(t, c.x, "bias", c.bias);
  CT_TRY(ct__im_done(t, n, c.x));
out:
  return rc;
}

/* ---- pooling ---- */

/* A pooling op: its kind, and how many dims its windows have. */
typedef struct pool {
  const char *kind;
  int space, max;
} pool_t;

/* Returns a shape with a dim of channels: N x H x W becomes N x 1 x H x W. */
static ct_shape_t conv_with_channels(const ct_shape_t *s)
{
  ct_shape_t r = *s;
  memmove(r.dim + 2, s->dim + 1, (size_t)(s->ndim - 1) * sizeof *s->dim);
  r.dim[1] = 1;
  r.ndim++;
  return r;
}

/* Reads the input and the shape of the result.  The samples may be the channels of an input without
 * a dim for the batch. */
static int conv_pool_begin(ct__im_t *t, const ct_pt2_node_t *n, int space, int *x, ct_shape_t *y)
{
  int rc = CT_OK;
  ct_shape_t s;
  CT_TRY(ct__im_in(t, n, "self", 0, x));
  CT_TRY(ct__im_result(t, n, y));
  if (n->outs > 1 && !ct__im_unused(t, n->out[1]))
    return ct__im_refuse("its indices are used; only its values have a layer");
  s = t->layer[*x].shape;
  if (y->ndim == space + 1 && y->batch == 1 && s.ndim == y->ndim && s.batch == 1) {
    s = conv_with_channels(&s);
    *y = conv_with_channels(y);
    CT_TRY(ct__im_reshape(t, *x, &s, x));
  }
  if (y->ndim != space + 2 || y->batch != 1)
    return ct__im_refuse("its input has no dim for the batch");
out:
  return rc;
}

static int conv_pool_end(ct__im_t *t, const ct_pt2_node_t *n, int x)
{
  int rc = CT_OK;
  ct_shape_t y;
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int conv_pool(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, ceil = 0, pad = 1;
  const pool_t *p = data;
  int64_t kernel[3], stride[3], padding[3], dilation[3], divisor;
  options_t o = {.text = ""};
  ct_shape_t y;
  CT_TRY(conv_pool_begin(t, n, p->space, &x, &y));
  CT_TRY(ct_pt2_ints(t->g, n, "kernel_size", p->space, kernel));
  memcpy(stride, kernel, sizeof stride);
  const ct_pt2_arg_t *a = ct_pt2_arg(n, "stride");
  if (a && a->kind != CT_PT2_NONE && a->n) CT_TRY(ct_pt2_ints(t->g, n, "stride", p->space, stride));
  CT_TRY(ct_pt2_ints(t->g, n, "padding", p->space, padding));
  CT_TRY(ct_pt2_bool(t->g, n, "ceil_mode", &ceil));
  conv_sizes(t, &o, "kernel", p->space, kernel, -1);
  if (memcmp(kernel, stride, (size_t)p->space * sizeof *kernel) != 0)
    conv_sizes(t, &o, "stride", p->space, stride, -1);
  conv_sizes(t, &o, "padding", p->space, padding, 0);
  if (p->max) {
    CT_TRY(ct_pt2_ints(t->g, n, "dilation", p->space, dilation));
    conv_sizes(t, &o, "dilation", p->space, dilation, 1);
  } else {
    CT_TRY(ct_pt2_bool(t->g, n, "count_include_pad", &pad));
    int padded = 0;
    for (int i = 0; i < p->space; i++)
      padded |= padding[i] != 0;
    if (!pad && padded) conv_word(t, &o, "count_include_pad: no");
    if (!ct_pt2_is_none(n, "divisor_override")) {
      CT_TRY(ct_pt2_int(t->g, n, "divisor_override", &divisor));
      conv_sizes(t, &o, "divisor_override", 1, &divisor, -1);
    }
  }
  if (ceil) conv_word(t, &o, "ceil_mode: yes");
  if (!o.text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, p->kind, &y, x, "%s", o.text));
  CT_TRY(conv_pool_end(t, n, x));
out:
  return rc;
}

/* Pooling to a given size; to one pixel it is the global average. */
static int conv_adaptive(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, one = 1;
  const pool_t *p = data;
  int64_t out[3];
  ct_shape_t y;
  CT_TRY(conv_pool_begin(t, n, p->space, &x, &y));
  for (int i = 0; i < p->space; i++) {
    out[i] = y.dim[2 + i];
    one &= out[i] == 1;
  }
  if (one && !p->max && p->space >= 2) {
    CT_TRY(ct__im_one(t, &x, "global_avgpool", &y, x, NULL));
  } else if (ct__im_same(&y, &t->layer[x].shape)) {
    /* nothing changes */
  } else {
    const char *list = ct__im_list(t, p->space, out, p->space == 1);
    if (!list) return CT_ERR_NOMEM;
    CT_TRY(ct__im_one(t, &x, p->kind, &y, x, "out: %s", list));
  }
  CT_TRY(conv_pool_end(t, n, x));
out:
  return rc;
}

/* ---- resizing ---- */

/* data: the mode. */
/* Resizes one dim of what does not depend on the batch, such as a table of positions, by a product
 * with a constant matrix. */
static int conv_resize_dim(ct__im_t *t, int *x, int dim, const ct_resize_dim_t *d)
{
  int rc = CT_OK, w, order[CT_MAX_DIMS], last = t->layer[*x].shape.ndim - 1;
  float *share = ct__im_alloc(t, d->in * d->out, sizeof *share);
  if (!share) return CT_ERR_NOMEM;
  for (int64_t o = 0; o < d->out; o++) {
    ct_resize_tap_t tap = ct_resize_tap(d, o);
    for (int k = 0; k < tap.taps; k++)
      share[tap.in[k] * d->out + o] += (float)tap.weight[k];
  }
  for (int i = 0; i <= last; i++)
    order[i] = i == dim ? last : i == last ? dim : i;
  CT_TRY(ct__im_constant(t, &(ct_shape_t){.ndim = 2, .dim = {d->in, d->out}}, share, &w));
  CT_TRY(ct__im_permute(t, *x, order, x));
  CT_TRY(ct__im_matmul(t, *x, w, 0, x));
  CT_TRY(ct__im_permute(t, *x, order, x));
out:
  return rc;
}

static int conv_resize_table(ct__im_t *t, int *x, const ct_shape_t *y, const char *mode,
                             int corners, const double *scale)
{
  int rc = CT_OK;
  ct_resize_dim_t d = {.corners = corners};
  while (d.mode < CT_RESIZE_COUNT && strcmp(ct_resize_name(d.mode), mode) != 0)
    d.mode++;
  for (int i = 2; i < y->ndim; i++) {
    d.in = t->layer[*x].shape.dim[i];
    d.out = y->dim[i];
    d.scale = scale ? scale[i - 2] : 0;
    if (d.in != d.out) CT_TRY(conv_resize_dim(t, x, i, &d));
  }
out:
  return rc;
}

static int conv_resize(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, corners = 0, exact = 1, factors;
  int64_t size[3];
  const ct_pt2_arg_t *scales = ct_pt2_arg(n, "scale_factors");
  const char *list, *text = "";
  ct_shape_t y;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(ct__im_result(t, n, &y));
  int space = y.ndim - 2;
  if (space < 1 || space > 3 || y.batch > 1) return ct__im_refuse("its batch is not dim 0");
  if (!ct_pt2_is_none(n, "align_corners")) CT_TRY(ct_pt2_bool(t->g, n, "align_corners", &corners));
  factors = scales && scales->kind == CT_PT2_FLOATS && scales->n == space;
  for (int i = 0; i < space; i++) {
    size[i] = y.dim[2 + i];
    if (factors)
      exact &= (double)t->layer[x].shape.dim[2 + i] * scales->number[i] == (double)size[i];
  }
  if (!y.batch)
    CT_TRY(conv_resize_table(t, &x, &y, data, corners, factors ? scales->number : NULL));
  if (ct__im_same(&y, &t->layer[x].shape)) return ct__im_done(t, n, x);
  if (exact || corners) {
    list = ct__im_list(t, space, size, 0);
    text = list ? ct__im_format(t, "size: %s", list) : NULL;
  } else {
    for (int i = 0; i < space && text; i++) {
      char number[40];
      text = ct__im_format(t, "%s%s%s", text, i ? ", " : "scale: [",
                           ct_text_number(scales->number[i], number, sizeof number));
    }
    text = text ? ct__im_format(t, "%s]", text) : NULL;
  }
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "upsample", &y, x, "%s, mode: %s%s", text, (const char *)data,
                    corners ? ", align_corners: yes" : ""));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

typedef struct windows {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
} windows_t;

static int read_windows(const ct__im_t *t, const ct_pt2_node_t *n, windows_t *w)
{
  int rc = CT_OK;
  CT_TRY(ct_pt2_ints(t->g, n, "kernel_size", 2, w->kernel));
  CT_TRY(ct_pt2_ints(t->g, n, "dilation", 2, w->dilation));
  CT_TRY(ct_pt2_ints(t->g, n, "padding", 2, w->padding));
  CT_TRY(ct_pt2_ints(t->g, n, "stride", 2, w->stride));
out:
  return rc;
}

/* torch.nn.Unfold */
static int conv_im2col(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  windows_t w;
  options_t o = {.text = ""};
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(read_windows(t, n, &w));
  conv_sizes(t, &o, "kernel", 2, w.kernel, -1);
  conv_sizes(t, &o, "dilation", 2, w.dilation, 1);
  conv_sizes(t, &o, "padding", 2, w.padding, 0);
  conv_sizes(t, &o, "stride", 2, w.stride, 1);
  if (!o.text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &x, "unfold", &y, x, "%s", o.text));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* torch.nn.Fold of windows that neither overlap nor leave gaps, which is a view. */
static int conv_col2im(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  windows_t w;
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(read_windows(t, n, &w));
  for (int i = 0; i < 2; i++)
    if (w.kernel[i] != w.stride[i] || w.dilation[i] != 1 || w.padding[i] ||
        y.dim[y.ndim - 2 + i] % w.kernel[i])
      return ct__im_refuse("its windows overlap or leave gaps");
  if (y.ndim != 4) return ct__im_refuse("its batch is not dim 0");
  ct_shape_t s = ct_shape(6, y.dim[0], y.dim[1], w.kernel[0], w.kernel[1], y.dim[2] / w.kernel[0],
                          y.dim[3] / w.kernel[1]);
  s.batch = y.batch;
  CT_TRY(ct__im_reshape(t, x, &s, &x));
  CT_TRY(ct__im_permute(t, x, (const int[CT_MAX_DIMS]){0, 1, 4, 2, 5, 3}, &x));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static const pool_t max1 = {"maxpool1d", 1, 1}, max2 = {"maxpool", 2, 1},
                    max3 = {"maxpool3d", 3, 1};
static const pool_t avg1 = {"avgpool1d", 1, 0}, avg2 = {"avgpool", 2, 0},
                    avg3 = {"avgpool3d", 3, 0};
static const pool_t to_avg[3] = {
    {"adaptive_avgpool", 1, 0}, {"adaptive_avgpool", 2, 0}, {"adaptive_avgpool", 3, 0}};
static const pool_t to_max[3] = {
    {"adaptive_maxpool", 1, 1}, {"adaptive_maxpool", 2, 1}, {"adaptive_maxpool", 3, 1}};

#define CONV(kind)                   \
  {                                  \
    "aten." kind, conv_forward, kind \
  }
#define TRANSPOSE(kind)                 \
  {                                     \
    "aten." kind, conv_transposed, kind \
  }
#define POOL(op, row)           \
  {                             \
    "aten." op, conv_pool, &row \
  }
#define ADAPT(op, row)              \
  {                                 \
    "aten." op, conv_adaptive, &row \
  }
#define RESIZE(op, m)          \
  {                            \
    "aten." op, conv_resize, m \
  }

const ct__im_rule_t ct__im_convs[] = {CONV("conv1d"),
                                      CONV("conv2d"),
                                      CONV("conv3d"),
                                      TRANSPOSE("conv_transpose1d"),
                                      TRANSPOSE("conv_transpose2d"),
                                      TRANSPOSE("conv_transpose3d"),
                                      POOL("max_pool1d", max1),
                                      POOL("max_pool2d", max2),
                                      POOL("max_pool3d", max3),
                                      POOL("max_pool1d_with_indices", max1),
                                      POOL("max_pool2d_with_indices", max2),
                                      POOL("max_pool3d_with_indices", max3),
                                      POOL("avg_pool1d", avg1),
                                      POOL("avg_pool2d", avg2),
                                      POOL("avg_pool3d", avg3),
                                      ADAPT("adaptive_avg_pool1d", to_avg[0]),
                                      ADAPT("adaptive_avg_pool2d", to_avg[1]),
                                      ADAPT("adaptive_avg_pool3d", to_avg[2]),
                                      ADAPT("adaptive_max_pool1d", to_max[0]),
                                      ADAPT("adaptive_max_pool2d", to_max[1]),
                                      ADAPT("adaptive_max_pool3d", to_max[2]),
                                      RESIZE("upsample_nearest1d", "nearest"),
                                      RESIZE("upsample_nearest2d", "nearest"),
                                      RESIZE("upsample_nearest3d", "nearest"),
                                      RESIZE("_upsample_nearest_exact1d", "nearest-exact"),
                                      RESIZE("_upsample_nearest_exact2d", "nearest-exact"),
                                      RESIZE("_upsample_nearest_exact3d", "nearest-exact"),
                                      RESIZE("upsample_linear1d", "linear"),
                                      RESIZE("upsample_bilinear2d", "linear"),
                                      RESIZE("upsample_trilinear3d", "linear"),
                                      RESIZE("upsample_bicubic2d", "bicubic"),
                                      {"aten.im2col", conv_im2col, NULL},
                                      {"aten.col2im", conv_col2im, NULL},
                                      {NULL, NULL, NULL}};
