/* Random descriptors, drawn from a seed: sizes from 1 up, windows larger than inputs, strides
 * larger than windows, groups, dilation, empty batches, every option of every kind.  They are
 * small, so that a hundred thousand take minutes. */
#include "tests/conform/draw.h"
#include "tests/conform/draw_sizes.h"

#include <math.h>
#include <string.h>

#include "base/ct_rng.h"

/* Limits on elements and operations of a case: most are quick to compute, some are large enough to
 * be split among threads. */
enum { USUAL = 1 << 12, LARGE = 1 << 15, USUAL_FLOPS = 300000, LARGE_FLOPS = 4000000 };

/* ---- linear layers, convolutions, pooling ---- */

static int64_t draw_groups(dice_t *d, ct_shape_t *x, int64_t *out)
{
  int64_t groups = 1;
  if (dice_is(d, 60)) return groups;
  if (dice_is(d, 50)) { /* depthwise */
    *out = x->dim[1] * (dice_is(d, 75) ? 1 : dice_throw(d, 2, 3));
    return x->dim[1];
  }
  groups = dice_throw(d, 2, 5);
  x->dim[1] = groups * dice_throw(d, 1, 18);
  *out = groups * dice_throw(d, 1, 18);
  return groups;
}

/* Draws a window; returns the output size, or 0 if the window is larger than the padded input. */
static int64_t draw_window(dice_t *d, int64_t in, int *kernel, int *stride, int *pad, int *dilate)
{
  *kernel = (int)(dice_is(d, 70)   ? dice_throw(d, 1, 5)
                  : dice_is(d, 90) ? dice_throw(d, 1, 11)
                                   : dice_throw(d, 1, 20));
  *stride = (int)(dice_is(d, 50) ? 1 : dice_is(d, 90) ? dice_throw(d, 1, 4) : dice_throw(d, 1, 18));
  *dilate = (int)(dice_is(d, 80) ? 1 : dice_throw(d, 2, 3));
  *pad = (int)(dice_is(d, 30) ? 0 : dice_is(d, 60) ? *kernel / 2 : dice_throw(d, 0, *kernel));
  int64_t beyond = in + 2 * *pad - (int64_t)*dilate * (*kernel - 1) - 1;
  return beyond < 0 ? 0 : beyond / *stride + 1;
}

static int draw_conv(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_image(d), y = x;
  int64_t out = draw_channels(d), groups = draw_groups(d, &x, &out);
  y.dim[1] = out;
  draw_start(c, CT_OP_CONV, x, y);
  c->desc.u.conv.groups = (int)groups;
  int alike = dice_is(d, 60); /* same window in all dims */
  for (int i = 0; i < x.ndim - 2; i++) {
    int *k = &c->desc.u.conv.kernel[i], *s = &c->desc.u.conv.stride[i];
    int *p = &c->desc.u.conv.pad[i], *l = &c->desc.u.conv.dilate[i];
    int64_t size = draw_window(d, x.dim[2 + i], k, s, p, l);
    if (i && alike) {
      *k = k[-1];
      *s = s[-1];
      *p = p[-1];
      *l = l[-1];
      size = x.dim[2 + i] + 2 * *p <= (int64_t)*l * (*k - 1)
                 ? 0
                 : ct_op_window_out(x.dim[2 + i], *k, *s, *p, *l);
    }
    if (size < 1) return 0;
    c->desc.y.dim[2 + i] = size;
  }
  c->desc.u.conv.bias = dice_is(d, 50);
  c->desc.u.conv.relu = dice_is(d, 30);
  c->desc.u.conv.add = dice_is(d, 10);
  return 1;
}

static void draw_linear(dice_t *d, op_case_t *c)
{
  ct_shape_t x = dice_is(d, 60) ? ct_shape(2, draw_batch(d), draw_channels(d)) : draw_sequence(d),
             y;
  if (dice_is(d, 10)) x.dim[x.ndim - 1] = dice_throw(d, 60, 300);
  y = x;
  y.dim[y.ndim - 1] = draw_channels(d);
  draw_start(c, CT_OP_LINEAR, x, y);
  c->desc.u.linear.bias = dice_is(d, 50);
  c->desc.u.linear.relu = dice_is(d, 30);
  c->desc.u.linear.plain = dice_is(d, 30);
}

/* Global, adaptive, or windowed pooling. */
static int draw_pool(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_image(d), y = x;
  int kind = (int)dice_throw(d, 0, 9), alike = dice_is(d, 60), gaps = dice_is(d, 15), unused;
  draw_start(c, CT_OP_POOL, x, y);
  c->desc.u.pool.average = kind == 0 || dice_is(d, 40);
  c->desc.u.pool.ceil = kind > 1 && dice_is(d, 30);
  c->desc.u.pool.global = kind == 0;
  c->desc.u.pool.adaptive = kind == 1;
  for (int i = 0; i < x.ndim - 2; i++) {
    int *k = &c->desc.u.pool.kernel[i], *s = &c->desc.u.pool.stride[i], *p = &c->desc.u.pool.pad[i];
    int64_t *out = &c->desc.y.dim[2 + i];
    *out = kind == 0 ? 1 : draw_size(d);
    if (kind < 2) continue;
    draw_window(d, x.dim[2 + i], k, s, p, &unused);
    if (i && alike) *k = k[-1];
    if (i && alike) *s = s[-1];
    if (i && alike) *p = p[-1];
    if (dice_is(d, 20)) *s = *k; /* windows tile the input */
    if (*p > *k / 2) *p = *k / 2;
    if (gaps && !c->desc.u.pool.average) c->desc.u.pool.gap[i] = (int)dice_throw(d, 0, 2);
    int gap = c->desc.u.pool.gap[i];
    if (x.dim[2 + i] + 2 * *p < (*k - 1) * (1 + gap) + 1) return 0;
    *out = ct_op_pool_out(x.dim[2 + i], *k, *s, *p, 1 + gap, c->desc.u.pool.ceil);
  }
  if (!c->desc.u.pool.average && dice_is(d, 60)) c->data = DATA_TIES;
  if (kind < 2) return 1;
  if (c->desc.u.pool.average && dice_is(d, 15)) c->desc.u.pool.divisor = (int)dice_throw(d, 1, 9);
  c->desc.u.pool.include_pad = c->desc.u.pool.average && dice_is(d, 50);
  c->desc.u.pool.relu = !c->desc.u.pool.average && dice_is(d, 30);
  return 1;
}

/* ---- the other kinds ---- */

static void draw_bnorm(dice_t *d, op_case_t *c)
{
  static const double momentum[] = {0.1, 0.01, 1, 0}, eps[] = {1e-5, 1e-3, 0.1};
  ct_shape_t x = draw_any(d);
  draw_start(c, CT_OP_BNORM, x, x);
  c->desc.training = dice_is(d, 70);
  c->desc.u.bnorm.eps = eps[dice_throw(d, 0, 2)];
  c->desc.u.bnorm.momentum = momentum[dice_throw(d, 0, 3)];
  c->desc.u.bnorm.relu = dice_is(d, 50) ? 0 : dice_is(d, 70) ? 1 : CT_RELU6;
  c->desc.u.bnorm.add = dice_is(d, 40);
  if (x.ndim >= 4 && !c->desc.u.bnorm.add && dice_is(d, 40))
    c->desc.within = x.dim[1] + draw_channels(d);
}

/* Element-wise ops. */
static void draw_point(dice_t *d, ct_op_kind_t kind, op_case_t *c)
{
  ct_shape_t x = draw_any(d);
  draw_start(c, kind, x, x);
  c->desc.training = dice_is(d, 70);
  if (kind == CT_OP_ACT) {
    ct_act_t act = (ct_act_t)dice_throw(d, 0, CT_ACT_COUNT - 1);
    c->desc.u.act.kind = act;
    c->desc.u.act.alpha = ct_act_facts_of(act)->alpha == CT_ALPHA_SLOPE ? 0.3 : 1.2;
    c->desc.training = 0;
  }
  if (kind == CT_OP_ADD) c->desc.u.add.relu = dice_is(d, 50);
  if (kind == CT_OP_LNORM) c->desc.u.lnorm.eps = dice_is(d, 70) ? 1e-5 : 1e-2;
  if (kind == CT_OP_LNORM) c->desc.u.lnorm.dims = (int)dice_throw(d, 0, x.ndim - 1);
  if (kind == CT_OP_LNORM) c->desc.u.lnorm.rms = dice_is(d, 40);
  if (kind == CT_OP_DROPOUT) {
    c->desc.u.dropout.p =
        dice_is(d, 15) ? (double)dice_throw(d, 0, 1) : 0.05 * (double)dice_throw(d, 1, 19);
    c->desc.u.dropout.layer = (uint32_t)dice_throw(d, 0, 1000);
    c->desc.u.dropout.whole = dice_is(d, 30) ? (int)dice_throw(d, 1, 2) : 0;
    c->desc.u.dropout.unscaled = dice_is(d, 20);
    if (!c->desc.u.dropout.whole && dice_is(d, 30))
      c->desc.u.dropout.dim = (int)dice_throw(d, 0, x.ndim - 1);
    int64_t rows = dice_throw(d, 1, 4), size = x.dim[c->desc.u.dropout.dim];
    if (size % rows == 0) c->desc.u.dropout.rows = (int)rows;
  }
}

static void draw_gnorm(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_any(d);
  int64_t groups = dice_is(d, 30) ? x.dim[1] : dice_throw(d, 1, 6);
  if (x.dim[1] % groups) x.dim[1] = groups * dice_throw(d, 1, 9);
  draw_start(c, CT_OP_GNORM, x, x);
  c->desc.u.gnorm.groups = (int)groups;
  c->desc.u.gnorm.affine = dice_is(d, 70);
  c->desc.u.gnorm.eps = dice_is(d, 70) ? 1e-5 : 1e-2;
}

static void draw_concat(dice_t *d, op_case_t *c)
{
  ct_shape_t x = dice_is(d, 60)   ? draw_image(d)
                 : dice_is(d, 50) ? draw_sequence(d)
                                  : ct_shape(2, draw_batch(d), draw_channels(d)),
             y = x;
  draw_start(c, CT_OP_CONCAT, x, y);
  if (dice_is(d, 50)) c->desc.u.concat.along = (int)dice_throw(d, 1, x.ndim);
  c->desc.y.dim[ct_op_concat_dim(&c->desc)] += draw_channels(d);
  if (x.ndim < 4 || ct_op_concat_dim(&c->desc) != 1) return;
  c->desc.u.concat.placed = dice_is(d, 40);
  if (dice_is(d, 40)) c->desc.within = c->desc.y.dim[1] + draw_channels(d);
}

/* Any map: dims of y read dims of x in any order, some with edges. */
static void draw_strided(dice_t *d, op_case_t *c)
{
  ct_shape_t x = dice_is(d, 40) ? draw_image(d)
                                : ct_shape((int)dice_throw(d, 1, 6), draw_batch(d), draw_size(d),
                                           draw_size(d), draw_size(d), draw_size(d), draw_size(d));
  ct_shape_t y = x;
  int usual = dice_is(d, 60); /* each dim reads its own, with some changes */
  if (!usual) y.ndim = (int)dice_throw(d, 1, 6);
  draw_start(c, CT_OP_STRIDED, x, y);
  int order = (int)dice_throw(d, 0, 5);
  for (int i = 0; i < y.ndim; i++) {
    int from = usual && order > 1 ? i
               : usual            ? (i + order) % x.ndim
                                  : (int)dice_throw(d, -1, x.ndim - 1);
    c->desc.u.strided.from[i] = from;
    c->desc.u.strided.step[i] = dice_is(d, 80) ? 1 : dice_throw(d, -3, 3);
    c->desc.y.dim[i] = from >= 0 && dice_is(d, 80) ? x.dim[from] : draw_size(d);
    if (from >= 0 && c->desc.u.strided.step[i] < 0) c->desc.u.strided.start[from] = x.dim[from] - 1;
  }
  for (int s = 0; s < x.ndim; s++) {
    if (x.dim[s] == 0) c->desc.y.dim[0] = 0;
    c->desc.u.strided.edge[s] = (int)dice_throw(d, 0, CT_EDGE_COUNT - 1);
    if (dice_is(d, 25)) c->desc.u.strided.start[s] += dice_throw(d, -4, 4);
    if (s == 1 && dice_is(d, 10)) c->desc.u.strided.start[s] = 16 * dice_throw(d, 0, 2);
  }
  c->desc.u.strided.value = dice_is(d, 50) ? 0 : (double)dice_throw(d, -3, 3);
}

/* Indices of any shape, into a parameter or an input. */
static void draw_rows(dice_t *d, op_case_t *c)
{
  ct_shape_t x = ct_shape((int)dice_throw(d, 1, 3), draw_batch(d), draw_size(d), draw_size(d)),
             y = x;
  ct_shape_t table =
      ct_shape(1 + (int)dice_throw(d, 0, 2), draw_size(d), draw_channels(d), draw_size(d));
  for (int i = 1; i < table.ndim; i++)
    y.dim[y.ndim++] = table.dim[i];
  draw_start(c, CT_OP_ROWS, x, y);
  c->desc.u.rows.rows = table.dim[0];
  if (dice_is(d, 40)) c->desc.u.rows.padding = (int)dice_throw(d, 1, table.dim[0]);
  if (dice_is(d, 50)) c->desc.x2 = table;
}

static void draw_upsample(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_image(d), y = x;
  ct_resize_t mode = (ct_resize_t)dice_throw(d, 0, CT_RESIZE_COUNT - 1);
  int64_t factor = dice_throw(d, 1, 4);
  int whole = dice_is(d, 40), scaled = dice_is(d, 30);
  if (mode == CT_RESIZE_BICUBIC) x.ndim = y.ndim = 4;
  for (int i = 2; i < x.ndim; i++)
    y.dim[i] = whole ? y.dim[i] * factor : draw_size(d);
  draw_start(c, CT_OP_UPSAMPLE, x, y);
  c->desc.u.upsample.mode = mode;
  if (mode == CT_RESIZE_LINEAR || mode == CT_RESIZE_BICUBIC)
    c->desc.u.upsample.align_corners = dice_is(d, 40);
  for (int i = 0; i < x.ndim - 2 && scaled; i++)
    c->desc.u.upsample.scale[i] = 0.25 * (double)dice_throw(d, 1, 16);
}

static void draw_of_sequence(dice_t *d, ct_op_kind_t kind, op_case_t *c)
{
  ct_shape_t x = draw_sequence(d), y = x;
  int heads = (int)dice_throw(d, 1, 5);
  if (kind == CT_OP_ATTENTION) x.dim[2] = y.dim[2] = heads * dice_throw(d, 1, 12);
  if (kind == CT_OP_LSTM || kind == CT_OP_GRU) y.dim[2] = draw_channels(d);
  if (kind == CT_OP_SELECT) y = ct_shape(2, x.dim[0], x.dim[2]);
  draw_start(c, kind, x, y);
  if (kind == CT_OP_ATTENTION) c->desc.u.attention.heads = heads;
  if (kind == CT_OP_LSTM || kind == CT_OP_GRU) {
    c->desc.u.rnn.reverse = dice_is(d, 40);
    c->desc.u.rnn.no_bias = dice_is(d, 30);
  }
  if (kind == CT_OP_SELECT) c->desc.u.select.index = (int)dice_throw(d, -1, x.dim[1] - 1);
}

/* Leading dims of two matrices: equal, 1 in one of them, or missing in one. */
static void draw_matmul(dice_t *d, op_case_t *c)
{
  ct_shape_t a = ct_shape((int)dice_throw(d, 2, 5), 1, 1, 1, 1, 1), b, y;
  int64_t m = draw_size(d), n = draw_channels(d), k = draw_channels(d);
  int ta = dice_is(d, 30), tb = dice_is(d, 40);
  b = a;
  for (int i = 0; i < a.ndim - 2; i++) {
    a.dim[i] = b.dim[i] = dice_throw(d, 1, 3);
    if (dice_is(d, 25)) b.dim[i] = 1;
    if (dice_is(d, 15)) a.dim[i] = 1;
  }
  int cut = dice_is(d, 40) ? (int)dice_throw(d, 0, a.ndim - 2) : 0;
  b.ndim -= cut;
  for (int i = 0; i < b.ndim; i++)
    b.dim[i] = b.dim[i + cut];
  a.dim[a.ndim - 2] = ta ? k : m;
  a.dim[a.ndim - 1] = ta ? m : k;
  b.dim[b.ndim - 2] = tb ? n : k;
  b.dim[b.ndim - 1] = tb ? k : n;
  y = a;
  for (int i = 0; i < a.ndim - 2; i++)
    if (i >= cut && b.dim[i - cut] > 1) y.dim[i] = b.dim[i - cut];
  y.dim[a.ndim - 2] = m;
  y.dim[a.ndim - 1] = n;
  draw_start(c, CT_OP_MATMUL, a, y);
  c->desc.x2 = b;
  c->desc.u.matmul.a_turned = ta;
  c->desc.u.matmul.b_turned = tb;
}

static void draw_sdpa(dice_t *d, op_case_t *c)
{
  ct_shape_t q = ct_shape((int)dice_throw(d, 3, 4), draw_batch(d), dice_throw(d, 1, 3), 1, 1);
  ct_shape_t k, v, y;
  q.dim[q.ndim - 2] = draw_size(d);
  q.dim[q.ndim - 1] = draw_channels(d);
  k = v = y = q;
  k.dim[q.ndim - 2] = v.dim[q.ndim - 2] = draw_size(d);
  v.dim[q.ndim - 1] = y.dim[q.ndim - 1] = dice_is(d, 60) ? q.dim[q.ndim - 1] : draw_channels(d);
  draw_start(c, CT_OP_SDPA, q, y);
  ct_op_desc_more(&c->desc, &k, &v);
  c->desc.u.sdpa.causal = dice_is(d, 40);
  c->desc.u.sdpa.scale = 1 / sqrt((double)q.dim[q.ndim - 1]);
}

/* Packed heads, groups of heads, masks, a cache. */
static void draw_heads(dice_t *d, op_case_t *c)
{
  int kv = (int)dice_throw(d, 1, 3), packed = (int)dice_throw(d, 0, 2);
  sdpa_row_t r = {.n = (int)draw_batch(d),
                  .t = (int)draw_size(d),
                  .s = (int)draw_size(d),
                  .heads = kv * (int)dice_throw(d, 1, 3),
                  .kv = kv,
                  .d = (int)draw_channels(d),
                  .e = (int)draw_channels(d),
                  .packed = packed,
                  .causal = dice_is(d, 60),
                  .mask = packed ? (ct_mask_t)dice_throw(d, 0, CT_MASK_COUNT - 1) : CT_MASK_NONE,
                  .bias = (int)dice_throw(d, 0, 3)};
  r.cached = r.causal && packed != 1 && dice_is(d, 20);
  sdpa_with_heads(c, &r);
}

static void draw_softmax(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_any(d);
  draw_start(c, CT_OP_SOFTMAX, x, x);
  c->desc.u.softmax.dim = (int)dice_throw(d, 0, x.ndim - 1);
  c->desc.u.softmax.log = dice_is(d, 40);
}

static void draw_reduce(dice_t *d, op_case_t *c)
{
  static const double p[] = {1, 2, INFINITY, 3};
  ct_shape_t x = draw_any(d), y = x;
  ct_reduction_t mode = (ct_reduction_t)dice_throw(d, 0, CT_RED_COUNT - 1);
  int one = mode == CT_RED_MAX || mode == CT_RED_MIN || mode == CT_RED_CUMSUM;
  unsigned dims = (unsigned)dice_throw(d, 1, (1 << x.ndim) - 1);
  int keep = dice_is(d, 50), n = 0;
  if (x.dim[0] == 0) x.dim[0] = y.dim[0] = 2;
  if (one) dims = 1u << dice_throw(d, 0, x.ndim - 1);
  for (int i = 0; i < x.ndim && mode != CT_RED_CUMSUM; i++) {
    if (dims >> i & 1 && !keep) continue;
    y.dim[n++] = dims >> i & 1 ? 1 : x.dim[i];
  }
  y.ndim = mode == CT_RED_CUMSUM ? x.ndim : n;
  if (y.ndim == 0) y = ct_shape(1, 1);
  draw_start(c, CT_OP_REDUCE, x, y);
  c->desc.u.reduce.mode = mode;
  c->desc.u.reduce.dims = dims;
  c->desc.u.reduce.p = p[dice_throw(d, 0, 3)];
  c->desc.u.reduce.correction = dice_is(d, 50);
  int ties = mode >= CT_RED_AMAX && mode <= CT_RED_MIN;
  c->data = ties || (mode == CT_RED_NORM && isinf(c->desc.u.reduce.p)) ? DATA_TIES : DATA_RANDOM;
}

static void draw_tokens(dice_t *d, op_case_t *c)
{
  ct_shape_t x = ct_shape(4, draw_batch(d), draw_channels(d), draw_size(d), draw_size(d));
  draw_start(c, CT_OP_TOKENS, x, ct_shape(3, x.dim[0], 1 + x.dim[2] * x.dim[3], x.dim[1]));
}

static void draw_loss(dice_t *d, op_case_t *c)
{
  ct_loss_spec_t spec = {.kind = (ct_loss_kind_t)dice_throw(d, 0, CT_LOSS_COUNT - 1)};
  int entropy = spec.kind == CT_LOSS_CROSS_ENTROPY;
  ct_shape_t x = ct_shape(2, draw_batch(d), 1 + draw_channels(d));
  if (dice_is(d, 10)) x.dim[1] = dice_throw(d, 66, 1500);
  if (dice_is(d, 30))
    x = ct_shape((int)dice_throw(d, 3, 5), x.dim[0], 1 + dice_throw(d, 1, 9), draw_size(d),
                 draw_size(d), draw_size(d));
  int labels = ct_loss_of_labels(spec.kind), focal = entropy || spec.kind == CT_LOSS_BCE;
  if (ct_loss_by_class(spec.kind) && x.ndim > 3) x.dim[1] = 1 + dice_throw(d, 1, 9);
  spec.one_hot = ct_loss_is_point(spec.kind) && dice_is(d, 50);
  spec.weighted = (ct_loss_by_class(spec.kind) || spec.kind == CT_LOSS_BCE) && dice_is(d, 40);
  spec.sample_weighted = dice_is(d, 30);
  spec.place_weighted = dice_is(d, 30);
  spec.skips_nan = !labels && !ct_loss_by_class(spec.kind) && !spec.one_hot && dice_is(d, 30);
  spec.has_ignored = labels && dice_is(d, 40);
  if (spec.has_ignored) spec.ignored = dice_is(d, 50) ? (int)dice_throw(d, 0, 1) : -100;
  if (entropy && dice_is(d, 40)) spec.label_smoothing = 0.1 * (double)dice_throw(d, 1, 10);
  if (focal && spec.label_smoothing == 0 && dice_is(d, 30)) spec.gamma = 2;
  if (spec.kind == CT_LOSS_BCE && dice_is(d, 30)) spec.alpha = 0.25;
  spec.param = 0.25 * (double)dice_throw(d, 1, 6);
  spec.logs = spec.kind == CT_LOSS_POISSON || dice_is(d, 50);
  if (entropy && dice_is(d, 30)) spec.z_loss = 0.01;
  if (entropy && dice_is(d, 40)) spec.classes_last = 1;
  if (dice_is(d, 40)) spec.divisor = (ct_divisor_t)dice_throw(d, 0, CT_DIVISOR_COUNT - 1);
  draw_start(c, CT_OP_LOSS, x, x);
  c->desc.u.loss = spec;
  c->data = dice_is(d, 50) ? DATA_TIES : DATA_RANDOM;
}

static void draw_head(dice_t *d, op_case_t *c)
{
  do
    draw_loss(d, c);
  while (c->desc.u.loss.kind != CT_LOSS_CROSS_ENTROPY ||
         (!c->desc.u.loss.classes_last && c->desc.x.ndim < 4));
  ct_loss_spec_t spec = c->desc.u.loss;
  ct_shape_t y = c->desc.x, x = y;
  x.dim[ct_op_head_dim(&c->desc)] = draw_channels(d);
  draw_start(c, CT_OP_HEAD_LOSS, x, y);
  c->desc.u.head_loss.loss = spec;
  c->desc.u.head_loss.bias = dice_is(d, 50);
  c->data = DATA_RANDOM;
}

/* A drawn convolution from y to x. */
static int draw_convt(dice_t *d, op_case_t *c)
{
  if (!draw_conv(d, c)) return 0;
  ct_shape_t x = c->desc.y, y = c->desc.x;
  c->desc.kind = CT_OP_CONVT;
  c->desc.x = x;
  c->desc.y = y;
  c->desc.u.conv.relu = c->desc.u.conv.add = 0;
  return 1;
}

/* A drawn convolution whose weight and bias are inputs. */
static int draw_convolve(dice_t *d, op_case_t *c)
{
  if (!draw_conv(d, c)) return 0;
  ct_shape_t weight = c->desc.x, bias = ct_shape(1, c->desc.y.dim[1]);
  weight.dim[0] = c->desc.y.dim[1];
  weight.dim[1] /= c->desc.u.conv.groups;
  for (int i = 2; i < weight.ndim; i++)
    weight.dim[i] = c->desc.u.conv.kernel[i - 2];
  c->desc.kind = CT_OP_CONVOLVE;
  c->desc.u.conv.relu = c->desc.u.conv.add = 0;
  ct_op_desc_more(&c->desc, &weight, c->desc.u.conv.bias ? &bias : NULL);
  return 1;
}

/* ---- one case ---- */

static int draw_of(dice_t *d, ct_op_kind_t kind, op_case_t *c)
{
  switch (kind) {
  case CT_OP_CONV:
    return draw_conv(d, c);
  case CT_OP_CONVT:
    return draw_convt(d, c);
  case CT_OP_CONVOLVE:
    return draw_convolve(d, c);
  case CT_OP_POOL:
    return draw_pool(d, c);
  case CT_OP_CONV_POOL:
    return draw_conv_pool(d, c);
  case CT_OP_LINEAR:
    draw_linear(d, c);
    return 1;
  case CT_OP_BNORM:
    draw_bnorm(d, c);
    return 1;
  case CT_OP_GNORM:
    draw_gnorm(d, c);
    return 1;
  case CT_OP_CONCAT:
    draw_concat(d, c);
    return 1;
  case CT_OP_ROWS:
    draw_rows(d, c);
    return 1;
  case CT_OP_STRIDED:
    draw_strided(d, c);
    return 1;
  case CT_OP_UPSAMPLE:
    draw_upsample(d, c);
    return 1;
  case CT_OP_LSTM:
  case CT_OP_GRU:
  case CT_OP_ATTENTION:
  case CT_OP_SELECT:
  case CT_OP_CACHE:
    draw_of_sequence(d, kind, c);
    return 1;
  case CT_OP_TOKENS:
    draw_tokens(d, c);
    return 1;
  case CT_OP_MATMUL:
    draw_matmul(d, c);
    return 1;
  case CT_OP_SDPA:
    if (dice_is(d, 40))
      draw_sdpa(d, c);
    else
      draw_heads(d, c);
    return 1;
  case CT_OP_POSITION:
    draw_position(d, c);
    return 1;
  case CT_OP_ROPE:
    draw_rope(d, c);
    return 1;
  case CT_OP_SOFTMAX:
    draw_softmax(d, c);
    return 1;
  case CT_OP_REDUCE:
    draw_reduce(d, c);
    return 1;
  case CT_OP_OPERAND: {
    ct_shape_t any = ct_shape(3, draw_channels(d), draw_size(d), draw_size(d));
    draw_start(c, kind, any, any);
    return 1;
  }
  case CT_OP_EXPR:
    draw_expr(d, c);
    return 1;
  case CT_OP_RANDOM:
    draw_random(d, c);
    return 1;
  case CT_OP_LOSS:
    draw_loss(d, c);
    return 1;
  case CT_OP_HEAD_LOSS:
    draw_head(d, c);
    return 1;
  case CT_OP_RELU:
  case CT_OP_ACT:
  case CT_OP_ADD:
  case CT_OP_DROPOUT:
  case CT_OP_LNORM:
  case CT_OP_FAKE_QUANT:
    draw_point(d, kind, c);
    return 1;
  case CT_OP_REORDER:
  case CT_OP_GRADSTAT:
  case CT_OP_MEASURE:
  case CT_OP_UPDATE:
  case CT_OP_COUNT:
    break;
  }
  return 0;
}

/* Relative frequency of a kind; 0 means 1.  Half of all draws are convolutions, pooling and linear
 * layers, which have most of the code.  Kinds below 0 are drawn in drawn.c. */
static const int shares[CT_OP_COUNT] = {
    [CT_OP_CONV] = 7,      [CT_OP_POOL] = 3,     [CT_OP_LINEAR] = 2,
    [CT_OP_BNORM] = 2,     [CT_OP_LOSS] = 2,     [CT_OP_REORDER] = -1,
    [CT_OP_GRADSTAT] = -1, [CT_OP_MEASURE] = -1, [CT_OP_UPDATE] = -1,
};

static int share_of(int kind)
{
  return shares[kind] < 0 ? 0 : shares[kind] ? shares[kind] : 1;
}

static ct_op_kind_t draw_kind(dice_t *d)
{
  int all = 0, k = 0;
  for (int i = 0; i < CT_OP_COUNT; i++)
    all += share_of(i);
  int64_t at = dice_throw(d, 0, all - 1);
  while (at >= share_of(k))
    at -= share_of(k++);
  return (ct_op_kind_t)k;
}

static int is_small(const ct_op_desc_t *d, int large)
{
  int64_t most = large ? LARGE : USUAL, weights = 0;
  for (int i = 0; i < CT_OP_PARAMS; i++)
    weights += ct_op_param_count(d, i);
  return ct_shape_count(&d->x) <= most && ct_shape_count(&d->y) <= most && weights <= 2 * most &&
         ct_op_flops(d, CT_FWD) <= (large ? LARGE_FLOPS : USUAL_FLOPS);
}

void draw_case(dice_t *dice, ct_op_kind_t kind, draw_t *out)
{
  char why[128];
  int large = dice_is(dice, 3);
  memset(out, 0, sizeof *out);
  if (kind == CT_OP_COUNT) kind = draw_kind(dice);
  while (!draw_of(dice, kind, &out->c) || !is_small(&out->c.desc, large) ||
         !ct_op_check(&out->c.desc, why))
    ;
  ct_dtype_t type = dice_is(dice, 70) ? CT_F32 : dice_is(dice, 60) ? CT_BF16 : CT_F16;
  if (kind != CT_OP_LOSS) ct_op_desc_type(&out->c.desc, type);
  /* with reduced precision, rounding decides what ReLU6 cuts off */
  if (kind == CT_OP_BNORM && type != CT_F32 && out->c.desc.u.bnorm.relu)
    out->c.desc.u.bnorm.relu = 1;
  out->way = (int)dice_throw(dice, 0, 1000);
  out->offered = (ct_layout_t)dice_throw(dice, 0, 3);
  if (out->c.desc.x.ndim < 4) out->offered = CT_PLAIN; /* other layouts need 4 dims */
  out->data = (uint64_t)dice_throw(dice, 1, 1 << 30);
}
