/* Op descriptors as plain data: initialized, compared and hashed byte for byte, so every byte must
 * be defined, padding included; and their text form. */
#include "backend/ct_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/ct_backend.h"
#include "backend/ct_expr_view.h"
#include "base/ct_err.h"

static void copy_shape(ct_shape_t *to, const ct_shape_t *from)
{
  /* field by field: an assignment may copy the padding of `from`, which breaks memcmp */
  to->dtype = from->dtype;
  to->layout = from->layout;
  to->ndim = from->ndim;
  memcpy(to->dim, from->dim, sizeof to->dim);
}

void ct_op_desc_init(ct_op_desc_t *d, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y)
{
  memset(d, 0, sizeof *d);
  d->kind = kind;
  d->passes = CT_FWD;
  copy_shape(&d->x, x);
  copy_shape(&d->y, y);
}

void ct_op_desc_more(ct_op_desc_t *d, const ct_shape_t *x2, const ct_shape_t *x3)
{
  if (x2) copy_shape(&d->x2, x2);
  if (x3) copy_shape(&d->x3, x3);
}

int ct_op_concat_dim(const ct_op_desc_t *d)
{
  if (d->u.concat.along) return d->u.concat.along - 1;
  return d->x.ndim == 3 ? 2 : 1;
}

int64_t ct_op_concat_row(const ct_op_desc_t *d, const ct_shape_t *s)
{
  int along = ct_op_concat_dim(d);
  int64_t n = 1;
  ct_shape_t sample = *s;
  for (int i = along; i < s->ndim; i++)
    n *= s->dim[i];
  if (d->x.layout == CT_PLAIN) return n;
  if (along == 1 && d->x.layout == CT_NHWC) return s->dim[1];
  /* the channels of a pixel follow its other dims */
  sample.layout = d->x.layout;
  for (int i = 0; i < along; i++)
    if (i != 1) sample.dim[i] = 1;
  if (along > 1 && d->x.layout != CT_NHWC) sample.dim[1] = 1; /* one block */
  return ct_shape_padded(&sample);
}

int64_t ct_op_row_width(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = d->x.ndim; i < d->y.ndim; i++)
    n *= d->y.dim[i];
  return n;
}

int ct_op_turned_pass(int pass)
{
  return (pass & CT_FWD ? CT_BWD_DATA : 0) | (pass & CT_BWD_DATA ? CT_FWD : 0) |
         (pass & CT_BWD_PARAM);
}

ct_op_desc_t ct_op_turned(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = *d;
  conv.kind = CT_OP_CONV;
  conv.passes = ct_op_turned_pass(d->passes);
  copy_shape(&conv.x, &d->y);
  copy_shape(&conv.y, &d->x);
  conv.u.conv.bias = 0;
  return conv;
}

/* Inserts a first dim into the values of a window. */
static void heighten_window(int v[3], int first)
{
  v[1] = v[0];
  v[0] = first;
}

static void heighten_shape(ct_shape_t *s)
{
  if (s->ndim != 3) return;
  s->dim[3] = s->dim[2];
  s->dim[2] = 1;
  s->ndim = 4;
}

void ct_op_heighten(ct_op_desc_t *d)
{
  heighten_shape(&d->x);
  heighten_shape(&d->y);
  heighten_shape(&d->x2);
  if (d->kind == CT_OP_CONV || d->kind == CT_OP_CONVT) {
    heighten_window(d->u.conv.kernel, 1);
    heighten_window(d->u.conv.stride, 1);
    heighten_window(d->u.conv.pad, 0);
    heighten_window(d->u.conv.dilate, 1);
  }
  if (d->kind == CT_OP_POOL && !d->u.pool.global && !d->u.pool.adaptive) {
    heighten_window(d->u.pool.kernel, 1);
    heighten_window(d->u.pool.stride, 1);
    heighten_window(d->u.pool.pad, 0);
  }
}

int ct_op_adds_second(const ct_op_desc_t *d)
{
  return (d->kind == CT_OP_LINEAR && d->u.linear.add) ||
         (d->kind == CT_OP_ATTENTION && d->u.attention.add);
}

ct_shape_t ct_op_second(const ct_op_desc_t *d)
{
  if (ct_op_is(d->kind, CT_KIND_SHAPES)) return d->x2;
  ct_shape_t s = d->kind == CT_OP_CONV || d->kind == CT_OP_LINEAR ? d->y : d->x;
  int along = d->kind == CT_OP_CONCAT ? ct_op_concat_dim(d) : 0;
  if (d->kind == CT_OP_CONCAT) s.dim[along] = d->y.dim[along] - d->x.dim[along];
  return s;
}

void ct_op_desc_type(ct_op_desc_t *d, ct_dtype_t t)
{
  d->y.dtype = t;
  if (!ct_op_is(d->kind, CT_KIND_INDEX)) d->x.dtype = t;
  if (d->x2.ndim) d->x2.dtype = t;
  if (d->x3.ndim) d->x3.dtype = t;
}

void ct_op_desc_flat(ct_op_desc_t *d, ct_op_kind_t kind, int64_t count, int rule, double p)
{
  ct_shape_t all = ct_shape(1, count);
  ct_op_desc_init(d, kind, &all, &all);
  if (kind == CT_OP_GRADSTAT)
    d->u.gradstat.p = p;
  else
    d->u.update.rule = rule;
}

int ct_op_check_pass(const ct_op_desc_t *d, int pass)
{
  char text[160];
  if (pass != 0 && !(pass & ~d->passes)) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "%s: was prepared for passes %d, not for %d",
                    ct_op_text(d, text, sizeof text), d->passes, pass);
}

/* ---- properties of kinds ---- */

const ct_op_facts_t *ct_op_facts_of(ct_op_kind_t kind)
{
  static const ct_op_facts_t facts[] = {
#define X(id, word, is, params, data_uses, param_uses, flops, data_flops, param_flops) \
  {#word, is, params, data_uses, param_uses, flops, data_flops, param_flops},
      CT_OP_LIST(X)
#undef X
          {.name = "unknown"}};
  return &facts[(unsigned)kind < CT_OP_COUNT ? kind : CT_OP_COUNT];
}

const char *ct_op_name(ct_op_kind_t kind)
{
  return ct_op_facts_of(kind)->name;
}

const ct_act_facts_t *ct_act_facts_of(ct_act_t kind)
{
  static const ct_act_facts_t facts[] = {
#define X(id, word, uses, alpha, keeps_zero, flops) {#word, uses, alpha, keeps_zero, flops},
      CT_ACT_LIST(X)
#undef X
          {.name = "unknown"}};
  return &facts[(unsigned)kind < CT_ACT_COUNT ? kind : CT_ACT_COUNT];
}

const char *ct_loss_name(ct_loss_kind_t kind)
{
  static const char *const name[] = {"cross_entropy",
#define X(id, word, what) #word,
                                     CT_POINT_LOSS_LIST(X)
#undef X
  };
  return (unsigned)kind < CT_LOSS_COUNT ? name[kind] : "unknown";
}

const char *ct_reduction_name(ct_reduction_t mode)
{
  static const char *const name[] = {
#define X(id, word, ...) #word,
      CT_RED_LIST(X)
#undef X
  };
  return (unsigned)mode < CT_RED_COUNT ? name[mode] : "unknown";
}

static int reduce_uses(ct_reduction_t mode)
{
  static const int uses[] = {
#define X(id, word, needs, flops) needs,
      CT_RED_LIST(X)
#undef X
  };
  return uses[mode];
}

static int reduce_flops(ct_reduction_t mode)
{
  static const int each[] = {
#define X(id, word, needs, flops) flops,
      CT_RED_LIST(X)
#undef X
  };
  return each[mode];
}

int64_t ct_op_normalised(const ct_op_desc_t *d)
{
  int dims = d->u.lnorm.dims ? d->u.lnorm.dims : 1;
  int64_t n = 1;
  for (int i = 0; i < dims; i++)
    n *= ct_dim_back(&d->x, i);
  return n;
}

int64_t ct_op_dropped_samples(const ct_op_desc_t *d)
{
  int rows = d->u.dropout.rows ? d->u.dropout.rows : 1;
  return d->x.dim[d->u.dropout.dim] / rows;
}

int64_t ct_op_reduced(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = 0; i < d->x.ndim; i++)
    if (d->u.reduce.dims >> i & 1) n *= d->x.dim[i];
  return n;
}

const char *ct_random_name(ct_random_t kind)
{
  static const char *const name[] = {"normal", "uniform", "bernoulli"};
  return (unsigned)kind < CT_RANDOM_COUNT ? name[kind] : "unknown";
}

int64_t ct_op_pixels(const ct_op_desc_t *d)
{
  if (d->kind != CT_OP_LOSS || d->u.loss.kind != CT_LOSS_CROSS_ENTROPY) return 1;
  return ct_shape_sample(&d->x) / d->x.dim[1];
}

/* Returns CT_USES_X if a backward pass reads an input or the weight. */
static int expr_uses(const ct_op_desc_t *d)
{
  unsigned inputs = d->passes & CT_BWD_DATA ? (1u << ct_expr_inputs(d)) - 1 : 0;
  if (d->u.expr.weight) inputs = (inputs & ~2u) | (d->passes & CT_BWD_PARAM ? 2u : 0);
  uint32_t read = ct_expr_needs(&d->u.expr, inputs).value & ((1u << CT_EXPR_INPUTS) - 1);
  return read ? CT_USES_X : 0;
}

int ct_op_uses(const ct_op_desc_t *d)
{
  const ct_op_facts_t *f = ct_op_facts_of(d->kind);
  int data = d->passes & CT_BWD_DATA, param = d->passes & CT_BWD_PARAM;
  int back = ct_op_goes_back(d);

  switch (d->kind) {
  case CT_OP_BNORM:
    return (back && (d->training || param) ? CT_USES_X : 0) |
           (back && d->u.bnorm.relu ? CT_USES_Y : 0);
  case CT_OP_ADD:
    return data && d->u.add.relu ? CT_USES_Y : 0;
  case CT_OP_EXPR:
    return expr_uses(d);
  case CT_OP_ACT:
    return data ? ct_act_facts_of(d->u.act.kind)->uses : 0;
  case CT_OP_REDUCE:
    return data ? reduce_uses(d->u.reduce.mode) : 0;
  default:
    return (data ? f->data_uses : 0) | (param ? f->param_uses : 0);
  }
}

/* Returns the number of kernel positions of a convolution. */
static int64_t taps(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = 0; i < d->x.ndim - 2; i++)
    n *= d->u.conv.kernel[i];
  return n;
}

int64_t ct_op_param_count(const ct_op_desc_t *d, int param)
{
  int64_t in = d->x.dim[d->x.ndim - 1], out = d->y.dim[d->y.ndim - 1];

  if (param < 0 || param >= ct_op_facts_of(d->kind)->params) return 0;
  switch (d->kind) {
  case CT_OP_CONV:
    if (param == 0) return d->y.dim[1] * (d->x.dim[1] / d->u.conv.groups) * taps(d);
    return d->u.conv.bias ? d->y.dim[1] : 0;
  case CT_OP_CONVT:
    if (param == 0) return d->x.dim[1] * (d->y.dim[1] / d->u.conv.groups) * taps(d);
    return d->u.conv.bias ? d->y.dim[1] : 0;
  case CT_OP_LINEAR:
    return param == 0 ? out * in : d->u.linear.bias ? out : 0;
  case CT_OP_LNORM:
    return ct_op_normalised(d);
  case CT_OP_GNORM:
    return d->u.gnorm.affine ? d->x.dim[1] : 0;
  case CT_OP_LSTM:
    return 4 * out * (param == 0 ? in : param == 1 ? out : 1);
  case CT_OP_ATTENTION:
    return (param < 2 ? 3 : 1) * in * (param % 2 ? 1 : in);
  case CT_OP_OPERAND:
    return ct_shape_count(&d->y);
  case CT_OP_EXPR:
    return d->u.expr.weight ? ct_shape_count(&d->x2) : 0;
  case CT_OP_ROWS:
    return d->x2.ndim ? 0 : d->u.rows.rows * ct_op_row_width(d);
  case CT_OP_TOKENS:
    return param == 0 ? out : ct_shape_sample(&d->y);
  default: /* one per channel */
    return d->x.dim[1];
  }
}

ct_op_info_t ct_op_info_of(const ct_op_desc_t *d, const char *algorithm)
{
  ct_op_info_t info = {.y_layout = d->kind == CT_OP_REORDER ? d->y.layout : d->x.layout,
                       .bwd_uses = ct_op_uses(d),
                       .kernels = {1, 1},
                       .algorithm = algorithm};
  for (int i = 0; i < CT_OP_PARAMS; i++)
    info.param_bytes[i] = (size_t)ct_op_param_count(d, i) * sizeof(float);
  return info;
}

/* ---- text ---- */

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

static void put_conv(text_t *t, const ct_op_desc_t *d)
{
  const int *dilate = d->u.conv.dilate;
  put_window(t, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad, space(d));
  if (dilate[0] != 1 || dilate[1] != 1 || (space(d) > 2 && dilate[2] != 1))
    put_short(t, "d", dilate, space(d));
  if (d->u.conv.groups != 1) op_put(t, " g%d", d->u.conv.groups);
  put_word(t, d->u.conv.bias, "bias");
  put_word(t, d->u.conv.add, "add");
  put_word(t, d->u.conv.relu, d->u.conv.relu == CT_RELU6 ? "relu6" : "relu");
}

static void put_pool(text_t *t, const ct_op_desc_t *d)
{
  int average = d->u.pool.average || d->u.pool.global || d->u.pool.adaptive;
  put_word(t, 1, average ? "average" : "max");
  if (d->u.pool.global || d->u.pool.adaptive) {
    put_word(t, 1, d->u.pool.global ? "global" : "adaptive");
  } else {
    put_window(t, d->u.pool.kernel, d->u.pool.stride, d->u.pool.pad, space(d));
    put_word(t, d->u.pool.include_pad, "include_pad");
  }
  put_word(t, d->u.pool.relu, "relu");
}

/* Appends the dims of x that the dims of y read, with their steps, "[0 2 1*-1 -]", and what is not
 * the default. */
static void put_strided(text_t *t, const ct_op_desc_t *d)
{
  static const char *const edges[] = {"value", "reflect", "replicate", "wrap"};
  int n = d->u.strided.y_view_dims ? d->u.strided.y_view_dims : d->y.ndim;
  int m = d->u.strided.x_view_dims ? d->u.strided.x_view_dims : d->x.ndim;
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
}

static void put_reduce(text_t *t, const ct_op_desc_t *d)
{
  ct_reduction_t mode = d->u.reduce.mode;
  put_word(t, 1, ct_reduction_name(mode));
  for (int i = 0, n = 0; i < d->x.ndim; i++)
    if (d->u.reduce.dims >> i & 1) op_put(t, "%s%d", n++ ? "," : " dim ", i);
  if (mode == CT_RED_NORM) op_put(t, " p%g", d->u.reduce.p);
  if (mode == CT_RED_VAR || mode == CT_RED_STD) op_put(t, " correction %g", d->u.reduce.correction);
}

/* Appends the details of products, and of ops over some dims. */
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
    op_put(t, " scale %g", d->u.sdpa.scale);
    put_word(t, d->u.sdpa.causal, "causal");
    break;
  case CT_OP_LNORM:
    if (d->u.lnorm.dims > 1) op_put(t, " %d dims", d->u.lnorm.dims);
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
  if (d->kind == CT_OP_UPSAMPLE) put_word(t, 1, d->u.upsample.linear ? "linear" : "nearest");
  if (d->kind == CT_OP_RANDOM) put_word(t, 1, ct_random_name(d->u.random.kind));
}

/* Appends the details of ops that move elements. */
static void put_moves(text_t *t, const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_STRIDED) put_strided(t, d);
  if (d->kind == CT_OP_CONCAT && d->u.concat.along) op_put(t, " dim %d", d->u.concat.along - 1);
  if (d->kind == CT_OP_ROWS) op_put(t, " of %lld", (long long)d->u.rows.rows);
  if (d->kind == CT_OP_ROWS && d->u.rows.padding) op_put(t, " padding %d", d->u.rows.padding - 1);
}

static void put_details(text_t *t, const ct_op_desc_t *d)
{
  put_moves(t, d);
  switch (d->kind) {
  case CT_OP_CONV:
  case CT_OP_CONVT:
    put_conv(t, d);
    break;
  case CT_OP_LINEAR:
    put_linear(t, d);
    break;
  case CT_OP_BNORM:
    put_word(t, 1, d->training ? "training" : "inference");
    put_word(t, d->u.bnorm.add, "add");
    put_word(t, d->u.bnorm.relu, d->u.bnorm.relu == CT_RELU6 ? "relu6" : "relu");
    put_word(t, d->u.bnorm.sync, "sync");
    break;
  case CT_OP_ACT:
    put_word(t, 1, ct_act_facts_of(d->u.act.kind)->name);
    if (ct_act_facts_of(d->u.act.kind)->alpha != CT_ALPHA_NONE) op_put(t, " %g", d->u.act.alpha);
    break;
  case CT_OP_EXPR:
    put_expr(t, d);
    break;
  case CT_OP_GNORM:
    op_put(t, " g%d", d->u.gnorm.groups);
    put_word(t, d->u.gnorm.affine, "affine");
    break;
  case CT_OP_ATTENTION:
    op_put(t, " %d heads", d->u.attention.heads);
    put_word(t, d->u.attention.add, "add");
    break;
  case CT_OP_LOSS:
    put_loss(t, &d->u.loss);
    break;
  case CT_OP_POOL:
    put_pool(t, d);
    break;
  case CT_OP_ADD:
    put_word(t, d->u.add.relu, "relu");
    break;
  case CT_OP_DROPOUT:
    op_put(t, " p%g", d->training ? d->u.dropout.p : 0.0);
    put_word(t, d->u.dropout.whole, "rows");
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
    put_products(t, d);
  }
}

const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap)
{
  char x[64], y[64];
  text_t t = {buf, cap, 0};

  if (cap > 0) buf[0] = 0;
  op_put(&t, "%s %s", ct_op_name(d->kind), ct_shape_text(&d->x, x, sizeof x));
  if (d->kind == CT_OP_MATMUL || d->kind == CT_OP_SDPA)
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

/* ---- FLOP counts ---- */

/* Counting rules: bias and ReLU of CONV and LINEAR are not counted, as is usual; elementwise ops
 * count the operations of the textbook formula. */
static double window_size(const int kernel[3], int n)
{
  double size = 1;
  for (int i = 0; i < n; i++)
    size *= kernel[i];
  return size;
}

static double forward_flops(const ct_op_desc_t *d)
{
  double x = (double)ct_shape_count(&d->x), y = (double)ct_shape_count(&d->y);
  double wide = (double)d->x.dim[d->x.ndim - 1], length = (double)d->x.dim[1];

  switch (d->kind) {
  case CT_OP_CONV:
    return 2 * y * (double)(d->x.dim[1] / d->u.conv.groups) *
           window_size(d->u.conv.kernel, space(d));
  case CT_OP_CONVT:
    return 2 * x * (double)(d->y.dim[1] / d->u.conv.groups) *
           window_size(d->u.conv.kernel, space(d));
  case CT_OP_LINEAR:
    return 2 * y * wide;
  case CT_OP_LSTM: /* GEMMs with both weights */
    return 8 * y * (wide + (double)d->y.dim[2]);
  case CT_OP_ATTENTION: /* projections; attention scores and their product with v */
    return 8 * x * wide + 4 * x * length;
  case CT_OP_ACT:
    return ct_act_facts_of(d->u.act.kind)->flops * x;
  case CT_OP_EXPR:
    return ct_expr_flops(&d->u.expr) * y;
  case CT_OP_TOKENS:
    return y;
  case CT_OP_BNORM:
    /* scale and shift; in training also sum and sum of squares */
    return x * ((d->training ? 5 : 2) + !!d->u.bnorm.add + !!d->u.bnorm.relu);
  case CT_OP_POOL:
    if (d->u.pool.global || d->u.pool.adaptive) return x;
    return y * window_size(d->u.pool.kernel, space(d));
  case CT_OP_ADD:
    return x * (1 + !!d->u.add.relu);
  case CT_OP_MATMUL:
    return 2 * y * (double)ct_dim_back(&d->x, d->u.matmul.a_turned ? 1 : 0);
  case CT_OP_SDPA: /* scores, and their product with the values */
    return 2 * y / (double)ct_dim_back(&d->y, 0) * (double)ct_dim_back(&d->x2, 1) *
           (double)(ct_dim_back(&d->x, 0) + ct_dim_back(&d->x3, 0));
  case CT_OP_REDUCE:
    return reduce_flops(d->u.reduce.mode) * x;
  case CT_OP_UPSAMPLE: /* a multiply and an add per dim and neighbour */
    return d->u.upsample.linear ? 4 * space(d) * y : 0;
  default:
    return ct_op_facts_of(d->kind)->flops * x;
  }
}

static double backward_flops(const ct_op_desc_t *d, int pass)
{
  const ct_op_facts_t *f = ct_op_facts_of(d->kind);
  double x = (double)ct_shape_count(&d->x);
  int flops = pass == CT_BWD_DATA ? f->data_flops : f->param_flops;

  if (flops == CT_KIND_FWD) return forward_flops(d);
  if (d->kind == CT_OP_MATMUL || d->kind == CT_OP_SDPA) return 2 * forward_flops(d);
  if (d->kind == CT_OP_ATTENTION) /* backward to parameters excludes the scores */
    return forward_flops(d) - 4 * x * (double)d->x.dim[1];
  return flops * x;
}

double ct_op_flops(const ct_op_desc_t *d, int pass)
{
  double sum = 0;

  if (pass & CT_FWD) sum += forward_flops(d);
  if (pass & CT_BWD_DATA) sum += backward_flops(d, CT_BWD_DATA);
  if (pass & CT_BWD_PARAM) sum += backward_flops(d, CT_BWD_PARAM);
  return sum;
}

int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate)
{
  int64_t extent = in + 2 * (int64_t)pad - (int64_t)dilate * (kernel - 1) - 1;

  /* C division rounds towards zero; a window that does not fit must not give one output */
  if (extent < 0) return -((-extent + stride - 1) / stride) + 1;
  return extent / stride + 1;
}
