/* Op descriptors as plain data: initialized, compared and hashed byte for byte, so every byte must
 * be defined, padding included. */
#include "backend/ct_op.h"

#include <string.h>

#include "backend/ct_backend.h"
#include "backend/ct_expr_view.h"
#include "backend/ct_sdpa.h"
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

ct_shape_t ct_op_around_x(const ct_op_desc_t *d)
{
  ct_shape_t s = d->x;
  if (ct_op_is_placed(d)) return ct_op_around_y(d);
  if (d->kind == CT_OP_BNORM && d->within) s.dim[1] = d->within;
  return s;
}

ct_shape_t ct_op_around_y(const ct_op_desc_t *d)
{
  ct_shape_t s = d->y;
  if (d->kind == CT_OP_CONCAT && d->within) s.dim[1] = d->within;
  return s;
}

int64_t ct_op_row_width(const ct_op_desc_t *d)
{
  int64_t n = 1;
  for (int i = d->x.ndim; i < d->y.ndim; i++)
    n *= d->y.dim[i];
  return n;
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

unsigned ct_op_indices(const ct_op_desc_t *d)
{
  int of_keys =
      d->kind == CT_OP_SDPA && (d->u.sdpa.mask == CT_MASK_FIRST || d->u.sdpa.mask == CT_MASK_KEYS);
  if (of_keys) return d->u.sdpa.packed == 1 ? 2 : 4;
  if (d->kind == CT_OP_ROPE && d->x2.ndim) return 2;
  return ct_op_is(d->kind, CT_KIND_INDEX) ? 1 : 0;
}

void ct_op_desc_type(ct_op_desc_t *d, ct_dtype_t t)
{
  d->y.dtype = t;
  ct_shape_t *in[] = {&d->x, &d->x2, &d->x3};
  for (int k = 0; k < CT_OP_INPUTS; k++)
    if (in[k]->ndim && !(ct_op_indices(d) >> k & 1)) in[k]->dtype = t;
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
                                     CT_POINT_LOSS_LIST(X) CT_SAMPLE_LOSS_LIST(X)
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

const char *ct_resize_name(ct_resize_t mode)
{
  static const char *const name[] = {"nearest", "linear", "nearest-exact", "bicubic"};
  return (unsigned)mode < CT_RESIZE_COUNT ? name[mode] : "unknown";
}

int64_t ct_op_pixels(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_LOSS && ct_loss_of_labels(d->u.loss.kind) ? ct_op_places(d) : 1;
}

int ct_loss_of_labels(ct_loss_kind_t kind)
{
  return kind == CT_LOSS_CROSS_ENTROPY || kind == CT_LOSS_DICE;
}

int ct_loss_softmax(ct_loss_kind_t kind)
{
  return ct_loss_of_labels(kind) || kind == CT_LOSS_SOFT_CROSS_ENTROPY;
}

int ct_loss_sigmoid(ct_loss_kind_t kind)
{
  return kind == CT_LOSS_BCE || kind == CT_LOSS_SIGMOID_DICE;
}

int ct_loss_by_class(ct_loss_kind_t kind)
{
  return ct_loss_softmax(kind) || kind == CT_LOSS_SIGMOID_DICE;
}

int ct_loss_is_point(ct_loss_kind_t kind)
{
  return kind != CT_LOSS_CROSS_ENTROPY && (int)kind < CT_POINT_LOSS_END;
}

int ct_loss_has_labels(const ct_loss_spec_t *o)
{
  return ct_loss_of_labels(o->kind) || o->one_hot;
}

int ct_op_head_dim(const ct_op_desc_t *d)
{
  return d->u.loss.classes_last ? d->x.ndim - 1 : 1;
}

ct_op_desc_t ct_op_loss_of(const ct_op_desc_t *d)
{
  ct_op_desc_t loss;
  int head = d->kind == CT_OP_HEAD_LOSS, last = d->u.loss.classes_last;
  ct_shape_t x = head ? d->y : d->x;
  if (head && !last)
    x = ct_shape(3, x.dim[0], ct_shape_sample(&x) / (x.dim[1] > 0 ? x.dim[1] : 1), x.dim[1]);
  ct_op_desc_init(&loss, CT_OP_LOSS, &x, head && !last ? &x : &d->y);
  loss.passes = d->passes & (CT_FWD | CT_BWD_DATA);
  loss.u.loss = d->u.loss;
  loss.u.loss.classes_last |= head;
  return loss;
}

int64_t ct_op_places(const ct_op_desc_t *d)
{
  int64_t outputs = ct_shape_sample(&d->x);
  return ct_loss_by_class(d->u.loss.kind) ? outputs / ct_op_classes(d) : outputs;
}

int64_t ct_op_classes(const ct_op_desc_t *d)
{
  if (!ct_loss_by_class(d->u.loss.kind)) return ct_shape_sample(&d->x);
  return d->x.dim[d->u.loss.classes_last ? d->x.ndim - 1 : 1];
}

double ct_op_loss_share(const ct_op_desc_t *d)
{
  int sums = d->u.loss.divisor == CT_DIVISOR_SAMPLES || d->u.loss.divisor == CT_DIVISOR_NONE;
  return sums ? 1 : 1 / (double)ct_shape_sample(&d->x);
}

/* Returns CT_USES_X if a backward pass reads an input or the weight. */
static int expr_uses(const ct_op_desc_t *d)
{
  unsigned inputs = d->passes & CT_BWD_DATA ? (1u << ct_expr_inputs(d)) - 1 : 0;
  for (int k = 1; k <= d->u.expr.weight; k++)
    inputs = (inputs & ~(1u << k)) | (d->passes & CT_BWD_PARAM ? 1u << k : 0);
  uint32_t read = ct_expr_needs(&d->u.expr, inputs).value & ((1u << CT_EXPR_INPUTS) - 1);
  return read ? CT_USES_X : 0;
}

/* ---- convolution, activation and pooling ---- */

int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate)
{
  int64_t extent = in + 2 * (int64_t)pad - (int64_t)dilate * (kernel - 1) - 1;

  /* C division rounds towards zero; a window that does not fit must not give one output */
  if (extent < 0) return -((-extent + stride - 1) / stride) + 1;
  return extent / stride + 1;
}

ct_op_desc_t ct_conv_pool_part(const ct_op_desc_t *d, ct_op_kind_t part)
{
  const ct_op_conv_pool_t *o = &d->u.conv_pool;
  ct_op_desc_t op;
  ct_shape_t c = d->y;
  for (int i = 0; i < d->x.ndim - 2; i++)
    c.dim[2 + i] = ct_op_window_out(d->x.dim[2 + i], o->conv.kernel[i], o->conv.stride[i],
                                    o->conv.pad[i], o->conv.dilate[i]);
  c.layout = CT_PLAIN;
  if (part == CT_OP_ACT && !o->act) part = CT_OP_RELU;
  ct_op_desc_init(&op, part, part == CT_OP_CONV ? &d->x : &c, part == CT_OP_POOL ? &d->y : &c);
  op.training = d->training;
  op.passes = (d->passes & CT_FWD) | (ct_op_goes_back(d) ? CT_BWD_DATA : 0);
  op.x.layout = op.y.layout = CT_PLAIN;
  if (part == CT_OP_CONV) {
    op.passes = d->passes;
    op.u.conv = o->conv;
  } else if (part == CT_OP_POOL) {
    op.u.pool = o->pool;
  } else if (part == CT_OP_ACT) {
    op.u.act.kind = (ct_act_t)(o->act - 1);
    op.u.act.alpha = o->alpha;
  }
  return op;
}

int ct_conv_pool_again(const ct_op_desc_t *d)
{
  const ct_op_conv_pool_t *o = &d->u.conv_pool;
  if (!ct_op_goes_back(d) || (!o->act && !o->conv.relu)) return 0;
  return o->pool.average || (o->act && ct_act_facts_of((ct_act_t)(o->act - 1))->uses & CT_USES_X);
}

/* The maxima are results of the activation. */
static int conv_pool_uses(const ct_op_desc_t *d)
{
  int again = ct_conv_pool_again(d), active = d->u.conv_pool.act || d->u.conv_pool.conv.relu;
  return (again || d->passes & CT_BWD_PARAM ? CT_USES_X : 0) |
         (active && !again && ct_op_goes_back(d) ? CT_USES_Y : 0);
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
  case CT_OP_CONV_POOL:
    return conv_pool_uses(d);
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
  ct_op_desc_t conv;
  int64_t in = d->x.dim[d->x.ndim - 1], out = d->y.dim[d->y.ndim - 1];

  if (param < 0 || param >= ct_op_facts_of(d->kind)->params) return 0;
  switch (d->kind) {
  case CT_OP_CONV:
    if (param == 0) return d->y.dim[1] * (d->x.dim[1] / d->u.conv.groups) * taps(d);
    return d->u.conv.bias ? d->y.dim[1] : 0;
  case CT_OP_CONVT:
    if (param == 0) return d->x.dim[1] * (d->y.dim[1] / d->u.conv.groups) * taps(d);
    return d->u.conv.bias ? d->y.dim[1] : 0;
  case CT_OP_CONV_POOL:
    conv = ct_conv_pool_part(d, CT_OP_CONV);
    return ct_op_param_count(&conv, param);
  case CT_OP_LINEAR:
    return param == 0 ? out * in : d->u.linear.bias ? out : 0;
  case CT_OP_HEAD_LOSS:
    in = d->x.dim[ct_op_head_dim(d)];
    out = d->y.dim[ct_op_head_dim(d)];
    return param == 0 ? out * in : d->u.head_loss.bias ? out : 0;
  case CT_OP_LNORM:
    return param == 1 && d->u.lnorm.rms ? 0 : ct_op_normalised(d);
  case CT_OP_GNORM:
    return d->u.gnorm.affine ? d->x.dim[1] : 0;
  case CT_OP_LSTM:
  case CT_OP_GRU:
    if (param > 1 && d->u.rnn.no_bias) return 0;
    return (d->kind == CT_OP_GRU ? 3 : 4) * out * (param == 0 ? in : param == 1 ? out : 1);
  case CT_OP_ATTENTION:
    return (param < 2 ? 3 : 1) * in * (param % 2 ? 1 : in);
  case CT_OP_OPERAND:
    return ct_shape_count(&d->y);
  case CT_OP_EXPR:
    return param < d->u.expr.weight ? ct_shape_count(ct_expr_shape(d, 1 + param)) : 0;
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

/* ---- FLOP counts ---- */

/* Returns the number of spatial dims of the input. */
static int space(const ct_op_desc_t *d)
{
  return d->x.ndim - 2;
}

/* Counting rules: bias and ReLU of CONV and LINEAR are not counted, as is usual; elementwise ops
 * count the operations of the textbook formula. */
static double window_size(const int kernel[3], int n)
{
  double size = 1;
  for (int i = 0; i < n; i++)
    size *= kernel[i];
  return size;
}

/* Returns the multiply-adds per dim of an output. */
static double resize_taps(ct_resize_t mode)
{
  return mode == CT_RESIZE_LINEAR ? 2 : mode == CT_RESIZE_BICUBIC ? 4 : 0;
}

static double forward_flops(const ct_op_desc_t *d);

static double conv_pool_flops(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_conv_pool_part(d, CT_OP_CONV), act = ct_conv_pool_part(d, CT_OP_ACT);
  ct_op_desc_t pool = ct_conv_pool_part(d, CT_OP_POOL);
  return forward_flops(&conv) + (d->u.conv_pool.act ? forward_flops(&act) : 0) +
         forward_flops(&pool);
}

static double forward_flops(const ct_op_desc_t *d)
{
  double x = (double)ct_shape_count(&d->x), y = (double)ct_shape_count(&d->y);
  double wide = (double)d->x.dim[d->x.ndim - 1], length = (double)d->x.dim[1];

  switch (d->kind) {
  case CT_OP_CONV:
  case CT_OP_CONVOLVE:
    return 2 * y * (double)(d->x.dim[1] / d->u.conv.groups) *
           window_size(d->u.conv.kernel, space(d));
  case CT_OP_CONVT:
    return 2 * x * (double)(d->y.dim[1] / d->u.conv.groups) *
           window_size(d->u.conv.kernel, space(d));
  case CT_OP_CONV_POOL:
    return conv_pool_flops(d);
  case CT_OP_LINEAR:
    return 2 * y * wide;
  case CT_OP_HEAD_LOSS:
    return 2 * y * (double)d->x.dim[ct_op_head_dim(d)];
  case CT_OP_LSTM: /* GEMMs with both weights */
    return 8 * y * (wide + (double)d->y.dim[2]);
  case CT_OP_GRU:
    return 6 * y * (wide + (double)d->y.dim[2]);
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
    if (!ct_op_has_kernel(d)) return x;
    return y * window_size(d->u.pool.kernel, space(d));
  case CT_OP_ADD:
    return x * (1 + !!d->u.add.relu);
  case CT_OP_MATMUL:
    return 2 * y * (double)ct_dim_back(&d->x, d->u.matmul.a_turned ? 1 : 0);
  case CT_OP_SDPA: /* scores, and their product with the values */
    return 2 * ct_sdpa_pairs(d) * (double)(ct_sdpa_of(d).d + ct_sdpa_of(d).e);
  case CT_OP_REDUCE:
    return reduce_flops(d->u.reduce.mode) * x;
  case CT_OP_UPSAMPLE: /* a multiply and an add per dim and neighbour */
    return 2 * resize_taps(d->u.upsample.mode) * space(d) * y;
  default:
    return ct_op_facts_of(d->kind)->flops * x;
  }
}

static double backward_flops(const ct_op_desc_t *d, int pass)
{
  const ct_op_facts_t *f = ct_op_facts_of(d->kind);
  double x = (double)ct_shape_count(&d->x);
  int flops = pass == CT_BWD_DATA ? f->data_flops : f->param_flops;

  if (d->kind == CT_OP_CONVOLVE) return 2 * forward_flops(d); /* with the weight's gradient */
  if (d->kind == CT_OP_ATTENTION) { /* between the projections twice the two products of forward */
    double heads = 4 * x * (double)d->x.dim[1], projections = forward_flops(d) - heads;
    return pass == CT_BWD_DATA ? projections + 2 * heads : projections;
  }
  if (flops == CT_KIND_FWD) return forward_flops(d);
  if (d->kind == CT_OP_CONV_POOL) {
    ct_op_desc_t conv = ct_conv_pool_part(d, CT_OP_CONV);
    return forward_flops(&conv);
  }
  if (d->kind == CT_OP_MATMUL || d->kind == CT_OP_SDPA) return 2 * forward_flops(d);
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
