/* The text of op descriptors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/ct_expr_view.h"
#include "backend/ct_op.h"
#include "backend/ct_op_parts.h"
#include "backend/ct_rules.h"
#include "backend/ct_sdpa.h"

typedef struct text {
  char *buf;
  size_t cap, len;
} text_t;

static void op_put(text_t *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void op_put(text_t *t, const char *fmt, ...)
{
  if (t->len + 1 >= t->cap) return;
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
  va_end(ap);
  if (n > 0) t->len += (size_t)n; /* may exceed cap: then all further text is dropped */
}

static void put_word(text_t *t, int on, const char *word)
{
  if (on) op_put(t, " %s", word);
}

/* Returns the number of spatial dims of the input. */
static int space(const ct_op_desc_t *d)
{
  return d->x.ndim - 2;
}

/* Appends a value per dim: " k3x3". */
static void put_each(text_t *t, const char *key, const int v[3], int n)
{
  for (int i = 0; i < n; i++)
    op_put(t, "%s%s%d", i ? "x" : " ", i ? "" : key, v[i]);
}

/* Appends one value, " s2", or if the dims differ a value per dim, " s2x1". */
static void put_short(text_t *t, const char *key, const int v[3], int n)
{
  int same = v[0] == v[1] && (n < 3 || v[0] == v[2]);
  put_each(t, key, v, same ? 1 : n);
}

static void put_window(text_t *t, const int kernel[3], const int stride[3], const int pad[3], int n)
{
  put_each(t, "k", kernel, n);
  put_short(t, "s", stride, n);
  put_short(t, "p", pad, n);
}

static void put_conv(text_t *t, const ct_op_conv_t *o, int n)
{
  const int *dilate = o->dilate;
  put_window(t, o->kernel, o->stride, o->pad, n);
  if (dilate[0] != 1 || dilate[1] != 1 || (n > 2 && dilate[2] != 1)) put_short(t, "d", dilate, n);
  if (o->groups != 1) op_put(t, " g%d", o->groups);
  put_word(t, o->bias, "bias");
  put_word(t, o->add, "add");
  put_word(t, o->relu, o->relu == CT_RELU6 ? "relu6" : "relu");
}

static void put_pool(text_t *t, const ct_op_pool_t *o, int n)
{
  const int *gap = o->gap;
  put_word(t, 1, o->average || o->global ? "average" : "max");
  if (o->global || o->adaptive) {
    put_word(t, 1, o->global ? "global" : "adaptive");
  } else {
    put_window(t, o->kernel, o->stride, o->pad, n);
    if (gap[0] || gap[1] || (n > 2 && gap[2])) put_each(t, "gap", gap, n);
    put_word(t, o->ceil, "ceil");
    put_word(t, o->include_pad, "include_pad");
    if (o->divisor) op_put(t, " by %d", o->divisor);
  }
  put_word(t, o->relu, "relu");
}

static void put_conv_pool(text_t *t, const ct_op_desc_t *d)
{
  const ct_op_conv_pool_t *o = &d->u.conv_pool;
  put_conv(t, &o->conv, space(d));
  if (o->act) op_put(t, " %s", ct_act_facts_of((ct_act_t)(o->act - 1))->name);
  if (o->act && o->alpha != 0) op_put(t, " %g", o->alpha);
  put_pool(t, &o->pool, space(d));
  op_put(t, " rows %d", o->rows);
}

/* The dims that a description has room for: a wrong one, which is refused by this text, may name
 * more. */
static int known_dims(int n)
{
  return n > CT_MAX_DIMS ? CT_MAX_DIMS : n;
}

/* Appends the dims of x that the dims of y read, with their steps, "[0 2 1*-1 -]", and what is not
 * the default. */
static void put_strided(text_t *t, const ct_op_desc_t *d)
{
  static const char *const edges[] = {"value", "reflect", "replicate", "wrap"};
  int n = known_dims(d->u.strided.y_view_dims ? d->u.strided.y_view_dims : d->y.ndim);
  int m = known_dims(d->u.strided.x_view_dims ? d->u.strided.x_view_dims : d->x.ndim);
  for (int i = 0; i < n; i++) {
    op_put(t, "%s", i ? " " : " [");
    if (d->u.strided.from[i] < 0)
      op_put(t, "-");
    else
      op_put(t, "%d", d->u.strided.from[i]);
    if (d->u.strided.from[i] >= 0 && d->u.strided.step[i] != 1)
      op_put(t, "*%lld", (long long)d->u.strided.step[i]);
  }
  op_put(t, "]");
  for (int s = 0; s < m; s++) {
    long long start = (long long)d->u.strided.start[s];
    if (start || d->u.strided.edge[s])
      op_put(t, " %d:%lld %s", s, start, edges[d->u.strided.edge[s] & 3]);
  }
  if (d->u.strided.value != 0) op_put(t, " %g", d->u.strided.value);
}

static const char *rule_name(int rule)
{
  static const char *const name[] = {
#define X(id, function, states, needs_norms, measure) #function,
      CT_RULE_LIST(X)
#undef X
  };
  return rule >= 0 && rule < CT_RULE_COUNT ? name[rule] + strlen("ct_rule_") : "unknown";
}

static void put_loss(text_t *t, const ct_loss_spec_t *o)
{
  put_word(t, 1, ct_loss_name(o->kind));
  put_word(t, o->one_hot, "one_hot");
  put_word(t, o->weighted, "weighted");
  put_word(t, o->sample_weighted, "sample_weighted");
  if (o->label_smoothing != 0) op_put(t, " smoothing %g", o->label_smoothing);
  if (o->divisor) op_put(t, " divisor %d", (int)o->divisor);
  put_word(t, o->place_weighted, "place_weighted");
  put_word(t, o->skips_nan, "skips_nan");
  put_word(t, o->logs, "logs");
  if (o->gamma != 0) op_put(t, " gamma %g", o->gamma);
  if (o->alpha != 0) op_put(t, " alpha %g", o->alpha);
  if (o->param != 0) op_put(t, " param %g", o->param);
  if (o->z_loss != 0) op_put(t, " z %g", o->z_loss);
  put_word(t, o->classes_last, "classes_last");
  if (o->has_ignored) op_put(t, " ignores %d", o->ignored);
}

static void put_matmul(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, d->u.matmul.a_turned, "transposed a");
  put_word(t, d->u.matmul.b_turned, "transposed b");
}

static void put_softmax(text_t *t, const ct_op_desc_t *d)
{
  op_put(t, " dim %d", d->u.softmax.dim);
  put_word(t, d->u.softmax.log, "log");
}

static void put_linear(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, d->u.linear.bias, "bias");
  put_word(t, d->u.linear.add, "add");
  put_word(t, d->u.linear.relu, "relu");
  put_word(t, d->u.linear.plain, "plain");
}

static void put_reduce(text_t *t, const ct_op_desc_t *d)
{
  ct_reduction_t mode = d->u.reduce.mode;
  put_word(t, 1, ct_reduction_name(mode));
  for (int i = 0, n = 0; i < known_dims(d->x.ndim); i++)
    if (d->u.reduce.dims >> i & 1) op_put(t, "%s%d", n++ ? "," : " dim ", i);
  if (mode == CT_RED_NORM) op_put(t, " p%g", d->u.reduce.p);
  if (mode == CT_RED_VAR || mode == CT_RED_STD) op_put(t, " correction %g", d->u.reduce.correction);
}

/* Appends the details of products, and of ops over some dims. */
static void put_sdpa(text_t *t, const ct_op_desc_t *d)
{
  static const char *const form[] = {"", "q|k|v", "k|v"};
  int packed = d->u.sdpa.packed;
  op_put(t, " scale %g", d->u.sdpa.scale);
  put_word(t, d->u.sdpa.causal, "causal");
  if (d->u.sdpa.heads) op_put(t, " %d heads", d->u.sdpa.heads);
  if (d->u.sdpa.kv_heads) op_put(t, " on %d", d->u.sdpa.kv_heads);
  put_word(t, packed == 1 || packed == 2, form[packed == 2 ? 2 : packed == 1]);
  if (d->u.sdpa.mask) op_put(t, " mask %s", ct_mask_name(d->u.sdpa.mask));
  put_word(t, d->u.sdpa.cached, "cached");
}

static void put_products(text_t *t, const ct_op_desc_t *d)
{
  switch (d->kind) {
  case CT_OP_MATMUL:
    put_matmul(t, d);
    break;
  case CT_OP_SOFTMAX:
    put_softmax(t, d);
    break;
  case CT_OP_REDUCE:
    put_reduce(t, d);
    break;
  case CT_OP_SDPA:
    put_sdpa(t, d);
    break;
  case CT_OP_LNORM:
    if (d->u.lnorm.dims > 1) op_put(t, " %d dims", d->u.lnorm.dims);
    put_word(t, d->u.lnorm.rms, "rms");
    break;
  case CT_OP_ROPE:
    op_put(t, " %d heads of %d theta %g", d->u.rope.heads, d->u.rope.dim, d->u.rope.theta);
    put_word(t, d->u.rope.interleaved, "interleaved");
    put_word(t, d->u.rope.scaling > 0, d->u.rope.scaling == CT_ROPE_LINEAR ? "linear" : "llama3");
    break;
  default:
    break;
  }
}

static int has_output(ct_op_kind_t kind)
{
  return !ct_op_is(kind, CT_KIND_FLAT);
}

static int dtypes_shown(const ct_op_desc_t *d)
{
  return d->x.dtype != CT_F32 || (has_output(d->kind) && d->y.dtype != CT_F32);
}

/* The other inputs and the functions of an elementwise op: " with 64x1x1 sigmoid mul". */
static void put_expr(text_t *t, const ct_op_desc_t *d)
{
  char shape[64];
  for (int k = 1; k < ct_expr_inputs(d); k++)
    op_put(t, "%s%s", k == 1 ? " with " : ", ",
           ct_shape_text(ct_expr_shape(d, k), shape, sizeof shape));
  for (int i = 0; i < d->u.expr.steps && i < CT_EXPR_STEPS; i++)
    put_word(t, 1, ct_fn_facts_of(d->u.expr.step[i].fn)->name);
}

/* The details of kinds with one number or word. */
static void put_detail(text_t *t, const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_SELECT) op_put(t, " %d", d->u.select.index);
  if (d->kind == CT_OP_RANDOM) put_word(t, 1, ct_random_name(d->u.random.kind));
}

/* Appends the details of ops that move elements. */
static void put_moves(text_t *t, const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_STRIDED) put_strided(t, d);
  if (d->kind == CT_OP_CONCAT && d->u.concat.along) op_put(t, " dim %d", d->u.concat.along - 1);
  put_word(t, ct_op_is_placed(d), "placed");
  if (d->within) op_put(t, " within %lld", (long long)d->within);
  if (d->kind == CT_OP_ROWS) op_put(t, " of %lld", (long long)d->u.rows.rows);
  if (d->kind == CT_OP_ROWS && d->u.rows.padding) op_put(t, " padding %d", d->u.rows.padding - 1);
}

static void put_bnorm(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, 1, d->training ? "training" : "inference");
  put_word(t, d->u.bnorm.add, "add");
  put_word(t, d->u.bnorm.relu, d->u.bnorm.relu == CT_RELU6 ? "relu6" : "relu");
  put_word(t, d->u.bnorm.sync, "sync");
}

static void put_resize(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, 1, ct_resize_name(d->u.upsample.mode));
  put_word(t, d->u.upsample.align_corners, "align_corners");
  for (int i = 0; i < space(d); i++)
    if (d->u.upsample.scale[i] != 0) op_put(t, " %d:%g", i, d->u.upsample.scale[i]);
}

static void put_norm_or_heads(text_t *t, const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_GNORM) op_put(t, " g%d", d->u.gnorm.groups);
  if (d->kind == CT_OP_GNORM) put_word(t, d->u.gnorm.affine, "affine");
  if (d->kind == CT_OP_ATTENTION) op_put(t, " %d heads", d->u.attention.heads);
  if (d->kind == CT_OP_ATTENTION) put_word(t, d->u.attention.add, "add");
}

static void put_rnn(text_t *t, const ct_op_desc_t *d)
{
  put_word(t, d->u.rnn.reverse, "reverse");
  put_word(t, d->u.rnn.no_bias, "without bias");
}

static void put_details(text_t *t, const ct_op_desc_t *d)
{
  put_moves(t, d);
  if (d->kind == CT_OP_CONV_POOL) put_conv_pool(t, d);
  switch (d->kind) {
  case CT_OP_CONV:
  case CT_OP_CONVT:
  case CT_OP_CONVOLVE:
    put_conv(t, &d->u.conv, space(d));
    break;
  case CT_OP_LINEAR:
    put_linear(t, d);
    break;
  case CT_OP_BNORM:
    put_bnorm(t, d);
    break;
  case CT_OP_ACT:
    put_word(t, 1, ct_act_facts_of(d->u.act.kind)->name);
    if (ct_act_facts_of(d->u.act.kind)->alpha != CT_ALPHA_NONE) op_put(t, " %g", d->u.act.alpha);
    break;
  case CT_OP_EXPR:
    put_expr(t, d);
    break;
  case CT_OP_UPSAMPLE:
    put_resize(t, d);
    break;
  case CT_OP_LSTM:
  case CT_OP_GRU:
    put_rnn(t, d);
    break;
  case CT_OP_HEAD_LOSS:
    put_word(t, d->u.head_loss.bias, "bias");
    put_loss(t, &d->u.loss);
    break;
  case CT_OP_LOSS:
    put_loss(t, &d->u.loss);
    break;
  case CT_OP_POOL:
    put_pool(t, &d->u.pool, space(d));
    break;
  case CT_OP_ADD:
    put_word(t, d->u.add.relu, "relu");
    break;
  case CT_OP_DROPOUT:
    op_put(t, " p%g", d->training ? d->u.dropout.p : 0.0);
    put_word(t, d->u.dropout.whole, d->u.dropout.whole > 1 ? "batch" : "rows");
    put_word(t, d->u.dropout.unscaled, "unscaled");
    break;
  case CT_OP_REORDER:
    op_put(t, " %s -> %s", ct_layout_name(d->x.layout), ct_layout_name(d->y.layout));
    break;
  case CT_OP_MEASURE:
  case CT_OP_UPDATE:
    put_word(t, 1, rule_name(d->u.update.rule));
    break;
  default: /* the others are fully described by their shapes */
    put_detail(t, d);
    put_norm_or_heads(t, d);
    put_products(t, d);
  }
}

const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap)
{
  char x[64], y[64];
  text_t t = {buf, cap, 0};

  if (cap > 0) buf[0] = 0;
  op_put(&t, "%s %s", ct_op_name(d->kind), ct_shape_text(&d->x, x, sizeof x));
  if (d->kind == CT_OP_MATMUL || (d->kind == CT_OP_SDPA && d->x2.ndim))
    op_put(&t, ", %s", ct_shape_text(&d->x2, y, sizeof y));
  if (has_output(d->kind)) op_put(&t, " -> %s", ct_shape_text(&d->y, y, sizeof y));
  put_details(&t, d);
  put_word(&t, d->q.dynamic, "dynamic int8");
  if (dtypes_shown(d)) op_put(&t, " %s", ct_dtype_name(d->x.dtype));
  if (dtypes_shown(d) && d->y.dtype != d->x.dtype) op_put(&t, " -> %s", ct_dtype_name(d->y.dtype));
  return buf;
}

const char *ct_op_pass_text(int pass)
{
  if (pass & CT_FWD) return "forward";
  if (pass & (CT_FWD_STATS | CT_BWD_STATS)) return "sums";
  return pass == (CT_BWD_DATA | CT_BWD_PARAM) ? "backward"
         : pass == CT_BWD_DATA                ? "backward data"
                                              : "backward weights";
}
