/* Validity checks of op descriptors, the same for all backends.  A backend only adds its own limits
 * (types, layouts, sizes), so an invalid descriptor gives the same message everywhere. */
#include "backend/ct_element.h"
#include "backend/ct_expr_view.h"
#include "backend/ct_op.h"
#include "backend/ct_op_parts.h"
#include "backend/ct_rules.h"
#include "backend/ct_sdpa.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"

/* Returns 1 if a shape is valid.  An empty batch is valid: a rank may be without samples in the
 * last step of an epoch. */
static int is_proper(const ct_shape_t *s)
{
  if (s->ndim < 1 || s->ndim > CT_MAX_DIMS || s->dim[0] < 0) return 0;
  for (int i = 1; i < s->ndim; i++) {
    if (s->dim[i] < 1) return 0;
  }
  return 1;
}

static int is_number(ct_dtype_t t)
{
  return t == CT_F32 || t == CT_BF16 || t == CT_F16;
}

static int has_scale(const ct_quant_params_t *p)
{
  return p->scale > 0 && p->zero >= 0 && p->zero <= 255;
}

static const char *check_int8(const ct_op_desc_t *d)
{
  int x = d->x.dtype == CT_U8, y = d->y.dtype == CT_U8;

  if (d->passes != CT_FWD) return "int8 ops have no backward pass";
  if (d->q.dynamic) {
    if (x || y || d->x.dtype != CT_F32 || d->y.dtype != CT_F32)
      return "dynamic int8 needs float32 input and output";
    if (d->kind == CT_OP_LSTM && (d->u.rnn.reverse || d->u.rnn.no_bias))
      return "an int8 LSTM runs forwards and has biases";
    return d->kind == CT_OP_LINEAR || d->kind == CT_OP_LSTM
               ? NULL
               : "only linear layers and LSTMs support dynamic int8";
  }
  if (!ct_op_is(d->kind, CT_KIND_INT8)) return "the op has no int8 version";
  if (x ? !has_scale(&d->q.x) : d->kind != CT_OP_REORDER || d->x.dtype != CT_F32)
    return "the int8 input has no scale";
  if (y ? !has_scale(&d->q.y) : !ct_op_is(d->kind, CT_KIND_DEQUANT) || d->y.dtype != CT_F32)
    return "the int8 output has no scale";
  if (d->kind == CT_OP_POOL &&
      (d->u.pool.ceil || d->u.pool.divisor || d->u.pool.gap[0] || d->u.pool.gap[1] ||
       d->u.pool.gap[2] || (d->u.pool.adaptive && !d->u.pool.average)))
    return "int8 pooling has no ceil mode, gaps, divisor or adaptive maximum";
  int two =
      d->kind == CT_OP_ADD || d->kind == CT_OP_CONCAT || (d->kind == CT_OP_CONV && d->u.conv.add);
  return two && !has_scale(&d->q.x2) ? "the second int8 input has no scale" : NULL;
}

/* Checks that x and y have the same type, except for a cast and for UPDATE, which may write the
 * weights in reduced precision. */
static const char *check_types(const ct_op_desc_t *d)
{
  ct_dtype_t x = d->x.dtype, y = d->y.dtype;

  if (ct_op_is_int8(d)) return check_int8(d);
  if (x == CT_U8 && d->kind == CT_OP_REORDER) {
    if (d->passes != CT_FWD) return "int8 tensors have no gradient";
    x = CT_F32;
  }
  if (!is_number(x) || !is_number(y)) return "expected float32, bfloat16 or float16";
  if (ct_op_is(d->kind, CT_KIND_FLAT) && x != CT_F32) return "the optimizer works in float32";
  if (x != y && d->kind != CT_OP_REORDER && d->kind != CT_OP_UPDATE &&
      !ct_op_is(d->kind, CT_KIND_INDEX))
    return "input and output differ in type";
  if (ct_op_is(d->kind, CT_KIND_INDEX) && x != CT_F32) return "indices are float32";
  for (int k = 1; k < CT_OP_INPUTS; k++) {
    const ct_shape_t *in = k == 1 ? &d->x2 : &d->x3;
    int exact = ct_op_indices(d) >> k & 1;
    if (in->ndim && in->dtype != (exact ? CT_F32 : y))
      return exact ? "indices are float32" : "an input and the output differ in type";
  }
  return NULL;
}

static const char *check_passes(const ct_op_desc_t *d)
{
  int stats = CT_FWD_STATS | CT_BWD_STATS;

  if (d->passes & ~(CT_FWD | CT_BWD_DATA | CT_BWD_PARAM | stats)) return "unknown pass";
  if (d->passes & stats && (d->kind != CT_OP_BNORM || !d->u.bnorm.sync))
    return "only a synchronized batchnorm outputs its statistics";
  if (ct_op_is(d->kind, CT_KIND_FLAT) && d->passes != CT_FWD) return "it has no backward pass";
  return NULL;
}

static const char *same_shape(const ct_op_desc_t *d)
{
  return ct_shape_same(&d->x, &d->y) ? NULL : "input and output differ in shape";
}

/* Returns 1 if the first \a n dims of x and y are equal. */
static int same_dims(const ct_op_desc_t *d, int n)
{
  for (int i = 0; i < n; i++)
    if (d->x.dim[i] != d->y.dim[i]) return 0;
  return 1;
}

#define check_conv      ct_conv_check
#define check_pool      ct_pool_check
#define check_conv_pool ct_conv_pool_check

static const char *check_convt(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_turned(d);

  if (d->u.conv.relu || d->u.conv.add) return "a transposed convolution fuses nothing";
  return check_conv(&conv);
}

static const char *check_convolve(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_with_params(d);
  ct_shape_t weight = d->x;

  if (d->u.conv.relu || d->u.conv.add) return "a convolution of two inputs fuses nothing";
  const char *reason = check_conv(&conv);
  if (reason) return reason;
  weight.dim[0] = d->y.dim[1];
  weight.dim[1] = d->x.dim[1] / d->u.conv.groups;
  for (int i = 2; i < d->x.ndim; i++)
    weight.dim[i] = d->u.conv.kernel[i - 2];
  if (!ct_shape_same(&weight, &d->x2)) return "the weight is not out x in/groups x window";
  if (!d->u.conv.bias != !d->x3.ndim) return "a bias without an input for it, or the reverse";
  return !d->x3.ndim || (d->x3.ndim == 1 && d->x3.dim[0] == d->y.dim[1])
             ? NULL
             : "the bias is not one value per output channel";
}

static const char *check_linear(const ct_op_desc_t *d)
{
  if (d->u.linear.add && ct_op_is_int8(d)) return "an int8 linear layer adds no second input";
  if (d->x.ndim < 2 || d->y.ndim != d->x.ndim) return "a linear layer takes N x ... x features";
  return same_dims(d, d->x.ndim - 1) ? NULL : "input and output differ before the last dimension";
}

/* Checks the parts of larger tensors. */
static const char *check_parts(const ct_op_desc_t *d, const ct_shape_t *part)
{
  if (!d->within && !ct_op_is_placed(d)) return NULL;
  if (d->x.ndim < 4) return "parts of larger tensors are images";
  if (d->kind == CT_OP_CONCAT && ct_op_concat_dim(d) != 1) return "the parts are not channels";
  if (ct_op_is_int8(d)) return "int8 tensors are whole";
  return d->within && d->within <= part->dim[1] ? "the larger tensor is not larger" : NULL;
}

static const char *check_bnorm(const ct_op_desc_t *d)
{
  if (d->x.ndim < 2) return "batch normalisation takes N x C x ...";
  if (!(d->u.bnorm.eps >= 0)) return "eps is negative";
  if (d->u.bnorm.sync && !d->training) return "synchronized statistics are for training only";
  if (d->within && d->u.bnorm.add) return "an addition takes whole tensors";
  const char *wrong = check_parts(d, &d->x);
  return wrong ? wrong : same_shape(d);
}

static const char *check_relu(const ct_op_desc_t *d)
{
  return same_shape(d);
}

static const char *check_add(const ct_op_desc_t *d)
{
  return same_shape(d);
}

static const char *check_fake_quant(const ct_op_desc_t *d)
{
  return same_shape(d);
}

static const char *check_dropout(const ct_op_desc_t *d)
{
  int dim = d->u.dropout.dim, rows = d->u.dropout.rows ? d->u.dropout.rows : 1;
  if (!(d->u.dropout.p >= 0 && d->u.dropout.p <= 1)) return "p is not in 0 to 1";
  if (dim < 0 || dim >= d->x.ndim) return "the dim of samples is not one of the input's dims";
  if (dim && d->u.dropout.whole) return "whole rows are dropped if the samples are in dim 0";
  if (rows < 1 || d->x.dim[dim] % rows) return "the dim of samples is not a multiple of the rows";
  return same_shape(d);
}

static const char *check_random(const ct_op_desc_t *d)
{
  int rows = d->u.random.rows;
  if (d->passes != CT_FWD) return "random numbers have no gradient";
  if ((unsigned)d->u.random.kind >= CT_RANDOM_COUNT) return "unknown distribution";
  if (rows < 0 || (rows > 1 && d->x.dim[0] % rows)) return "its rows are not those of samples";
  return d->u.random.p >= 0 && d->u.random.p <= 1 ? same_shape(d) : "p is not in 0 to 1";
}

/* Returns the size of the dim of an input that is dim i of y. */
static int64_t size_at(const ct_shape_t *s, const ct_shape_t *y, int i)
{
  int at = i - (y->ndim - s->ndim);
  return at < 0 ? 1 : s->dim[at];
}

static const char *check_expr(const ct_op_desc_t *d)
{
  if (d->x3.ndim && !d->x2.ndim) return "it has a third input, but no second one";
  if (d->u.expr.weight < 0 || d->u.expr.weight >= ct_expr_inputs(d))
    return "its weight has no shape";
  if (d->passes & CT_BWD_PARAM && !d->u.expr.weight) return "it has no parameter";
  for (int i = 0; i < d->y.ndim; i++) {
    int64_t size = 1;
    for (int k = 0; k < ct_expr_inputs(d); k++) {
      const ct_shape_t *s = ct_expr_shape(d, k);
      int64_t own = size_at(s, &d->y, i);
      if (s->ndim > d->y.ndim || (own != 1 && own != d->y.dim[i]))
        return "an input does not fit the output";
      if (own != 1) size = own;
    }
    if (size != d->y.dim[i]) return "the output is larger than its inputs";
  }
  return ct_expr_check(&d->u.expr, ct_expr_inputs(d));
}

static const char *check_act(const ct_op_desc_t *d)
{
  if ((unsigned)d->u.act.kind >= CT_ACT_COUNT) return "unknown activation";
  int alpha = ct_act_facts_of(d->u.act.kind)->alpha;
  if (alpha == CT_ALPHA_SLOPE && !(d->u.act.alpha >= 0)) return "the negative slope is below 0";
  if (alpha == CT_ALPHA_FACTOR && !(d->u.act.alpha > 0)) return "the factor is not above 0";
  return same_shape(d);
}

static const char *check_concat(const ct_op_desc_t *d)
{
  int along = ct_op_concat_dim(d);

  if (d->y.ndim != d->x.ndim) return "input and output differ in dimensions";
  if (along < 0 || along >= d->x.ndim)
    return "the dim to concatenate is not one of the input's dims";
  if (d->x.dim[along] >= d->y.dim[along]) return "the output is too small for the second input";
  for (int i = 0; i < d->x.ndim; i++)
    if (i != along && d->x.dim[i] != d->y.dim[i])
      return d->u.concat.along ? "only the dim that is concatenated may grow"
             : along == 1      ? "only the channels may grow"
                               : "only the features may grow";
  return check_parts(d, &d->y);
}

static const char *check_lnorm(const ct_op_desc_t *d)
{
  if (d->x.ndim < 2) return "layer normalisation takes N x ... x features";
  if (d->u.lnorm.dims < 0 || d->u.lnorm.dims > d->x.ndim) return "it has fewer dims";
  return d->u.lnorm.eps >= 0 ? same_shape(d) : "eps is negative";
}

static const char *check_gnorm(const ct_op_desc_t *d)
{
  if (d->x.ndim < 2) return "group normalisation takes N x C x ...";
  if (d->u.gnorm.groups < 1 || d->x.dim[1] % d->u.gnorm.groups)
    return "the channels are not a multiple of the groups";
  return d->u.gnorm.eps >= 0 ? same_shape(d) : "eps is negative";
}

static const char *check_lstm(const ct_op_desc_t *d)
{
  if (d->x.ndim != 3 || d->y.ndim != 3) return "an LSTM takes N x T x F and gives N x T x H";
  return same_dims(d, 2) ? NULL : "input and output differ in batch size or steps";
}

static const char *check_gru(const ct_op_desc_t *d)
{
  if (d->x.ndim != 3 || d->y.ndim != 3) return "a GRU takes N x T x F and gives N x T x H";
  return same_dims(d, 2) ? NULL : "input and output differ in batch size or steps";
}

static const char *check_attention(const ct_op_desc_t *d)
{
  int heads = d->u.attention.heads;

  if (d->x.ndim != 3 || !ct_shape_same(&d->x, &d->y)) return "attention takes and gives N x T x D";
  return heads >= 1 && d->x.dim[2] % heads == 0 ? NULL
                                                : "the heads do not divide the last dimension";
}

static const char *check_sdpa(const ct_op_desc_t *d)
{
  return ct_sdpa_check(d);
}

static const char *check_tokens(const ct_op_desc_t *d)
{
  if (d->x.ndim != 4 || d->y.ndim != 3) return "tokens are made from N x D x H x W";
  if (!same_dims(d, 1) || d->y.dim[1] != 1 + d->x.dim[2] * d->x.dim[3] ||
      d->y.dim[2] != d->x.dim[1])
    return "the output is not N x (1 + H W) x D";
  return NULL;
}

static const char *check_select(const ct_op_desc_t *d)
{
  int64_t index = d->u.select.index;

  if (d->x.ndim != 3 || d->y.ndim != 2) return "select takes N x T x D and gives N x D";
  if (!same_dims(d, 1) || d->x.dim[2] != d->y.dim[1])
    return "input and output differ in batch size or features";
  return index >= -1 && index < d->x.dim[1] ? NULL : "the index is out of range of the sequence";
}

#define check_cache ct_cache_check

static const char *check_rows(const ct_op_desc_t *d)
{
  int wide = d->y.ndim - d->x.ndim;
  if (wide < 0 || !same_dims(d, d->x.ndim)) return "the output is not a row for each index";
  if (d->u.rows.rows < 1 || d->u.rows.rows > 1 << 24) return "a table has 1 to 2^24 rows";
  if (d->u.rows.padding < 0 || d->u.rows.padding > d->u.rows.rows)
    return "there is no such row to leave without gradient";
  if (!d->x2.ndim) return NULL;
  if (d->x2.ndim != 1 + wide || d->x2.dim[0] != d->u.rows.rows || d->x3.ndim)
    return "the table is not rows x the dims of a row";
  for (int i = 0; i < wide; i++)
    if (d->x2.dim[1 + i] != d->y.dim[d->x.ndim + i])
      return "the table is not rows x the dims of a row";
  return NULL;
}

#define check_position ct_position_check
#define check_rope     ct_rope_check

static const char *check_operand(const ct_op_desc_t *d)
{
  if (d->passes & CT_BWD_DATA) return "a parameter has no input";
  return same_shape(d);
}

/* Checks a view: its elements are those of the shape. */
static int is_view(int ndim, const int64_t *dim, const ct_shape_t *of)
{
  if (ndim == 0) return 1;
  ct_shape_t view = ndim < 0 || ndim > CT_MAX_DIMS ? *of : ct_shape_dims(ndim, dim);
  return ndim > 0 && ndim <= CT_MAX_DIMS && is_proper(&view) &&
         ct_shape_count(&view) == ct_shape_count(of);
}

/* Checks the map; indices stay far below the limits of int64_t. */
static const char *check_map(const ct_op_desc_t *d, int from_dims, int to_dims, const int64_t *to)
{
  const int64_t most = (int64_t)1 << 40;
  for (int s = 0; s < from_dims; s++) {
    if (d->u.strided.start[s] < -most || d->u.strided.start[s] > most)
      return "a start is out of range";
    if (d->u.strided.edge[s] < 0 || d->u.strided.edge[s] >= CT_EDGE_COUNT)
      return "a dim has an unknown rule for its edges";
  }
  for (int i = 0; i < to_dims; i++) {
    int64_t step = d->u.strided.step[i], size = to[i] > 0 ? to[i] : 1;
    if (d->u.strided.from[i] < -1 || d->u.strided.from[i] >= from_dims)
      return "a dim reads a dim that the input does not have";
    if (step < -most / size || step > most / size) return "a step is out of range";
  }
  return NULL;
}

static const char *check_strided(const ct_op_desc_t *d)
{
  int m = d->u.strided.x_view_dims, n = d->u.strided.y_view_dims;
  if (!is_view(m, d->u.strided.x_view, &d->x) || !is_view(n, d->u.strided.y_view, &d->y))
    return "a view has other elements than its tensor";
  if (ct_shape_count(&d->x) == 0 && ct_shape_count(&d->y) > 0) return "the input is empty";
  if (d->u.strided.value != d->u.strided.value) return "the constant is not a number";
  return check_map(d, m ? m : d->x.ndim, n ? n : d->y.ndim, n ? d->u.strided.y_view : d->y.dim);
}

static const char *check_matmul(const ct_op_desc_t *d)
{
  const ct_shape_t *a = &d->x, *b = &d->x2, *y = &d->y;
  int ta = d->u.matmul.a_turned, tb = d->u.matmul.b_turned;
  int dims = a->ndim > b->ndim ? a->ndim : b->ndim;

  if (a->ndim < 2 || b->ndim < 2) return "a matrix product takes two inputs of 2 dims or more";
  if (y->ndim != dims) return "the output has other dims than the inputs";
  if (ct_dim_back(a, ta ? 1 : 0) != ct_dim_back(b, tb ? 0 : 1))
    return "the inner sizes of the matrices differ";
  if (ct_dim_back(y, 1) != ct_dim_back(a, ta ? 0 : 1) ||
      ct_dim_back(y, 0) != ct_dim_back(b, tb ? 1 : 0))
    return "the output's size is not that of the product";
  for (int i = 2; i < dims; i++) {
    int64_t s = ct_dim_back(a, i), t = ct_dim_back(b, i);
    if ((s != t && s != 1 && t != 1) || ct_dim_back(y, i) != (s == 1 ? t : s))
      return "the dims before the matrices cannot be broadcast";
  }
  return NULL;
}

static const char *check_softmax(const ct_op_desc_t *d)
{
  int dim = d->u.softmax.dim;
  return dim >= 0 && dim < d->x.ndim ? same_shape(d) : "the dim is not one of the input's dims";
}

/* Returns 1 if y has the dims of x without the reduced ones; if none is left, one dim of 1. */
static int is_without(const ct_op_desc_t *d, unsigned dims)
{
  int n = 0;
  for (int i = 0; i < d->x.ndim; i++)
    if (!(dims >> i & 1) && (n >= d->y.ndim || d->x.dim[i] != d->y.dim[n++])) return 0;
  return n == d->y.ndim || (n == 0 && d->y.ndim == 1 && d->y.dim[0] == 1);
}

static int is_kept(const ct_op_desc_t *d, unsigned dims)
{
  if (d->y.ndim != d->x.ndim) return 0;
  for (int i = 0; i < d->x.ndim; i++)
    if (d->y.dim[i] != (dims >> i & 1 ? 1 : d->x.dim[i])) return 0;
  return 1;
}

static const char *check_reduce(const ct_op_desc_t *d)
{
  ct_reduction_t mode = d->u.reduce.mode;
  unsigned dims = d->u.reduce.dims;
  int one = mode == CT_RED_MAX || mode == CT_RED_MIN || mode == CT_RED_CUMSUM;

  if ((unsigned)mode >= CT_RED_COUNT) return "unknown reduction";
  if (!dims) return "there is no dim to reduce";
  if (dims >> d->x.ndim) return "a dim to reduce is not one of the input's dims";
  if (one && dims & (dims - 1)) return "it works along one dim";
  if (mode == CT_RED_CUMSUM) return same_shape(d);
  if (mode == CT_RED_NORM && !(d->u.reduce.p > 0)) return "the order p is not above 0";
  if ((mode == CT_RED_VAR || mode == CT_RED_STD) &&
      !((double)ct_op_reduced(d) > d->u.reduce.correction))
    return "it has fewer values than the correction";
  return is_kept(d, dims) || is_without(d, dims) ? NULL
                                                 : "the output's size is not what the dims leave";
}

static const char *check_upsample(const ct_op_desc_t *d)
{
  if (d->x.ndim < 4 || d->y.ndim != d->x.ndim)
    return "upsampling takes N x C x H x W or N x C x D x H x W";
  if (!same_dims(d, 2)) return "input and output differ in batch size or channels";
  if ((unsigned)d->u.upsample.mode >= CT_RESIZE_COUNT) return "unknown mode";
  if (d->u.upsample.mode == CT_RESIZE_BICUBIC && d->x.ndim != 4) return "bicubic is for images";
  if (d->u.upsample.align_corners && d->u.upsample.mode != CT_RESIZE_LINEAR &&
      d->u.upsample.mode != CT_RESIZE_BICUBIC)
    return "only linear and bicubic align corners";
  for (int i = 0; i < d->x.ndim - 2; i++)
    if (!(d->u.upsample.scale[i] >= 0)) return "a scale is negative";
  return NULL;
}

static const char *check_reorder(const ct_op_desc_t *d)
{
  return ct_shape_count(&d->x) == ct_shape_count(&d->y)
             ? NULL
             : "input and output differ in their number of elements";
}

/* Checks the numbers of a loss. */
static const char *check_loss_numbers(const ct_loss_spec_t *o)
{
  int focal = o->kind == CT_LOSS_CROSS_ENTROPY || o->kind == CT_LOSS_BCE;

  if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
    return "label smoothing is not in 0 to 1";
  if (!(o->gamma >= 0 && o->gamma < INFINITY)) return "the focal gamma is negative";
  if (o->gamma > 0 && !focal) return "a focal gamma is for cross_entropy and bce";
  if (o->gamma > 0 && o->label_smoothing > 0) return "a focal gamma with label smoothing";
  if (!(o->z_loss >= 0 && o->z_loss < INFINITY)) return "the z-loss is negative";
  if (!(o->alpha >= 0 && o->alpha < 1)) return "the focal alpha is not in 0 to 1";
  int needs =
      o->kind == CT_LOSS_HUBER || o->kind == CT_LOSS_DICE || o->kind == CT_LOSS_SIGMOID_DICE;
  if (needs && !(o->param > 0)) return "delta of huber or smooth of dice is not above 0";
  return o->param >= 0 && o->param < INFINITY ? NULL : "the parameter of the loss is negative";
}

static const char *check_loss(const ct_op_desc_t *d)
{
  const ct_loss_spec_t *o = &d->u.loss;
  const char *why;
  if ((unsigned)o->kind >= CT_LOSS_COUNT) return "unknown loss";
  if ((unsigned)o->divisor >= CT_DIVISOR_COUNT) return "unknown divisor of a loss";
  if ((why = check_loss_numbers(o)) != NULL) return why;
  if (o->one_hot && !ct_loss_is_point(o->kind))
    return "one-hot labels are of losses of outputs one by one";
  if (ct_loss_by_class(o->kind) && d->x.ndim < 2) return "expected logits of N x classes x pixels";
  if (o->kind == CT_LOSS_CROSS_ENTROPY) return NULL;
  return o->classes_last || o->z_loss != 0 ? "a z-loss or classes last are for cross_entropy"
                                           : NULL;
}

static const char *check_head_loss(const ct_op_desc_t *d)
{
  int n = d->x.ndim, of = ct_op_head_dim(d);
  if (n < 3 - !!d->u.loss.classes_last || d->y.ndim != n) return "a head takes N x ... x features";
  for (int i = 0; i < n; i++)
    if (i != of && d->x.dim[i] != d->y.dim[i]) return "input and output differ beside the features";
  const ct_op_desc_t loss = ct_op_loss_of(d);
  return d->u.loss.kind ? "only cross-entropy is fused with its head" : check_loss(&loss);
}

static const char *check_gradstat(const ct_op_desc_t *d)
{
  return d->u.gradstat.p > 0 ? NULL : "the norm's p is not above 0";
}

static const char *check_update(const ct_op_desc_t *d)
{
  if (d->u.update.segments < 0) return "the number of segments is negative";
  return (unsigned)d->u.update.rule < CT_RULE_COUNT ? NULL : "unknown optimizer rule";
}

static const char *check_measure(const ct_op_desc_t *d)
{
  return check_update(d);
}

static const char *check_kind(const ct_op_desc_t *d)
{
  static const char *(*const checks[])(const ct_op_desc_t *d) = {
#define X(name, word, ...) check_##word,
      CT_OP_LIST(X)
#undef X
  };
  return (unsigned)d->kind < CT_OP_COUNT ? checks[d->kind](d) : "unknown op";
}

int ct_op_check(const ct_op_desc_t *d, char why[128])
{
  const char *reason = check_passes(d);

  if (!reason && (!is_proper(&d->x) || !is_proper(&d->y)))
    reason = "a shape has an empty or missing dimension";
  if (!reason && ((d->x2.ndim && !is_proper(&d->x2)) || (d->x3.ndim && !is_proper(&d->x3))))
    reason = "an input has an empty or missing dimension";
  if (!reason && (d->x2.ndim || d->x3.ndim) && !ct_op_is(d->kind, CT_KIND_SHAPES))
    reason = "the shapes of its inputs follow from the first";
  if (!reason) reason = check_types(d);
  if (!reason) reason = check_kind(d);
  snprintf(why, 128, "%s", reason ? reason : "");
  return reason == NULL;
}

int ct_op_check_pass(const ct_op_desc_t *d, int pass)
{
  char text[160];
  if (pass != 0 && !(pass & ~d->passes)) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "%s: was prepared for passes %d, not for %d",
                    ct_op_text(d, text, sizeof text), d->passes, pass);
}
