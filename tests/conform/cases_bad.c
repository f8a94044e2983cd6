/* Invalid descriptors, which every backend must refuse: a valid one of each kind with one error at
 * a time. */
#include "backend/ct_rules.h"
#include "tests/conform/cases.h"

#include <math.h>

static void start(ct_op_desc_t *d, ct_op_kind_t kind, ct_shape_t x, ct_shape_t y)
{
  ct_op_desc_init(d, kind, &x, &y);
}

static void make_window(int kernel[3], int stride[3], int pad[3])
{
  for (int i = 0; i < 2; i++) {
    kernel[i] = 3;
    stride[i] = 2;
    pad[i] = 1;
  }
}

void sound_op(ct_op_kind_t kind, ct_op_desc_t *d)
{
  ct_shape_t image = ct_shape(4, 2, 4, 5, 5), half = ct_shape(4, 2, 4, 3, 3);
  ct_shape_t more = ct_shape(4, 2, 6, 5, 5), row = ct_shape(2, 2, 100);
  ct_shape_t sequence = ct_shape(3, 2, 3, 8), wide = ct_shape(3, 2, 3, 5);

  start(d, kind, image, image);
  switch (kind) {
  case CT_OP_CONV:
    d->y = half;
    make_window(d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
    d->u.conv.dilate[0] = d->u.conv.dilate[1] = d->u.conv.groups = 1;
    break;
  case CT_OP_CONVT:
    d->x = half;
    make_window(d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
    d->u.conv.dilate[0] = d->u.conv.dilate[1] = d->u.conv.groups = 1;
    break;
  case CT_OP_CONVOLVE: {
    ct_shape_t weight = ct_shape(4, 4, 4, 3, 3), bias = ct_shape(1, 4);
    d->y = half;
    ct_op_desc_more(d, &weight, &bias);
    make_window(d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
    d->u.conv.dilate[0] = d->u.conv.dilate[1] = d->u.conv.groups = d->u.conv.bias = 1;
    break;
  }
  case CT_OP_POOL:
    d->y = half;
    make_window(d->u.pool.kernel, d->u.pool.stride, d->u.pool.pad);
    break;
  case CT_OP_CONV_POOL:
    d->y = ct_shape(4, 2, 4, 1, 1);
    d->u.conv_pool = (ct_op_conv_pool_t){.conv = {.dilate = {1, 1}, .groups = 1}, .rows = 1};
    make_window(d->u.conv_pool.conv.kernel, d->u.conv_pool.conv.stride, d->u.conv_pool.conv.pad);
    make_window(d->u.conv_pool.pool.kernel, d->u.conv_pool.pool.stride, d->u.conv_pool.pool.pad);
    d->u.conv_pool.pool.pad[0] = d->u.conv_pool.pool.pad[1] = 0;
    break;
  case CT_OP_CONCAT:
    d->y = more;
    break;
  case CT_OP_TOKENS:
    start(d, kind, half, ct_shape(3, 2, 10, 4));
    break;
  case CT_OP_SELECT:
    start(d, kind, sequence, ct_shape(2, 2, 8));
    break;
  case CT_OP_CACHE:
    start(d, kind, sequence, ct_shape(3, 2, 9, 8));
    break;
  case CT_OP_ROWS:
    start(d, kind, row, wide);
    d->x = ct_shape(2, 2, 3);
    d->u.rows.rows = 7;
    break;
  case CT_OP_POSITION:
    start(d, kind, ct_shape(2, 2, 3), ct_shape(2, 2, 3));
    break;
  case CT_OP_ROPE:
    start(d, kind, sequence, sequence);
    d->u.rope = (ct_rope_t){.heads = 2, .dim = 4, .theta = 1e4};
    break;
  case CT_OP_STRIDED: /* flips the rows of images */
    for (int i = 0; i < 4; i++) {
      d->u.strided.from[i] = i;
      d->u.strided.step[i] = i == 2 ? -1 : 1;
    }
    d->u.strided.start[2] = 4;
    break;
  case CT_OP_MATMUL:
    start(d, kind, ct_shape(3, 2, 3, 4), ct_shape(3, 2, 3, 5));
    d->x2 = ct_shape(2, 4, 5);
    break;
  case CT_OP_SDPA:
    start(d, kind, sequence, wide);
    d->x2 = ct_shape(3, 2, 6, 8);
    d->x3 = ct_shape(3, 2, 6, 5);
    d->u.sdpa.scale = 0.5;
    break;
  case CT_OP_SOFTMAX:
    d->u.softmax.dim = 1;
    break;
  case CT_OP_REDUCE:
    start(d, kind, image, ct_shape(4, 2, 4, 1, 1));
    d->u.reduce.dims = 12;
    d->u.reduce.p = 2;
    break;
  case CT_OP_UPSAMPLE:
    start(d, kind, half, ct_shape(4, 2, 4, 6, 9));
    break;
  case CT_OP_LINEAR:
  case CT_OP_LSTM:
  case CT_OP_GRU:
    start(d, kind, sequence, wide);
    break;
  case CT_OP_ATTENTION:
    start(d, kind, sequence, sequence);
    d->u.attention.heads = 2;
    break;
  case CT_OP_EXPR:
    d->x2 = ct_shape(3, 4, 1, 1);
    ct_expr_add(&d->u.expr, CT_FN_MUL, 0, ct_expr_add(&d->u.expr, CT_FN_SIGMOID, 1, 0, 0), 0);
    break;
  case CT_OP_GNORM:
    d->u.gnorm.groups = 2;
    d->u.gnorm.affine = 1;
    break;
  case CT_OP_REORDER:
    d->y = row;
    break;
  case CT_OP_LOSS:
    start(d, kind, row, row);
    break;
  case CT_OP_HEAD_LOSS:
    start(d, kind, sequence, wide);
    d->u.head_loss.loss.classes_last = 1;
    break;
  case CT_OP_GRADSTAT:
  case CT_OP_MEASURE:
  case CT_OP_UPDATE:
    ct_op_desc_flat(d, kind, 100, CT_RULE_SGD, 2);
    break;
  case CT_OP_BNORM:
  case CT_OP_OPERAND:
  case CT_OP_RELU:
  case CT_OP_ACT:
  case CT_OP_ADD:
  case CT_OP_DROPOUT:
  case CT_OP_RANDOM:
  case CT_OP_LNORM:
  case CT_OP_FAKE_QUANT:
  case CT_OP_COUNT:
    break;
  }
}

/* X(kind, words of the error text, statement that makes the descriptor invalid …) */
#define BAD_LIST(X)                                                                               \
  X(CT_OP_RELU, "unknown op", d->kind = CT_OP_COUNT)                                              \
  X(CT_OP_RELU, "unknown pass", d->passes = 64)                                                   \
  X(CT_OP_BNORM, "synchronized", d->passes = CT_FWD | CT_FWD_STATS; d->training = 1)              \
  X(CT_OP_RELU, "synchronized", d->passes = CT_FWD | CT_BWD_STATS)                                \
  X(CT_OP_GRADSTAT, "no backward pass", d->passes = CT_FWD | CT_BWD_DATA)                         \
  X(CT_OP_UPDATE, "no backward pass", d->passes = CT_BWD_PARAM)                                   \
  X(CT_OP_RELU, "missing dimension", d->x.dim[2] = d->y.dim[2] = 0)                               \
  X(CT_OP_RELU, "missing dimension", d->x.dim[0] = d->y.dim[0] = -1)                              \
  X(CT_OP_RELU, "missing dimension", d->x.ndim = d->y.ndim = 0)                                   \
  X(CT_OP_RELU, "missing dimension", d->x.ndim = d->y.ndim = CT_MAX_DIMS + 1)                     \
  X(CT_OP_CONV, "float32, bfloat16", d->x.dtype = d->y.dtype = CT_F64)                            \
  X(CT_OP_RELU, "float32, bfloat16", d->x.dtype = CT_U8)                                          \
  X(CT_OP_RELU, "in type", d->y.dtype = CT_BF16)                                                  \
  X(CT_OP_REORDER, "no gradient", d->x.dtype = CT_U8; d->passes = CT_FWD | CT_BWD_DATA)           \
  X(CT_OP_UPDATE, "in float32", d->x.dtype = CT_BF16)                                             \
  X(CT_OP_CONV, "N x C x H x W", d->x.ndim = d->y.ndim = 3)                                       \
  X(CT_OP_CONV, "batch size", d->y.dim[0] = 3)                                                    \
  X(CT_OP_CONV, "groups", d->u.conv.groups = 0)                                                   \
  X(CT_OP_CONV, "groups", d->u.conv.groups = 3)                                                   \
  X(CT_OP_CONV, "groups", d->u.conv.groups = 4; d->y.dim[1] = 6)                                  \
  X(CT_OP_CONV, "at least 1", d->u.conv.kernel[1] = 0)                                            \
  X(CT_OP_CONV, "at least 1", d->u.conv.stride[0] = 0)                                            \
  X(CT_OP_CONV, "at least 1", d->u.conv.dilate[1] = 0)                                            \
  X(CT_OP_CONV, "at least 0", d->u.conv.pad[0] = -1)                                              \
  X(CT_OP_CONV, "output's size", d->y.dim[3] = 4)                                                 \
  X(CT_OP_CONV, "inference only", d->u.conv.add = 1; d->passes |= CT_BWD_DATA)                    \
  X(CT_OP_CONVT, "N x C x H x W", d->x.ndim = d->y.ndim = 3)                                      \
  X(CT_OP_CONVT, "batch size", d->y.dim[0] = 3)                                                   \
  X(CT_OP_CONVT, "groups", d->u.conv.groups = 3)                                                  \
  X(CT_OP_CONVT, "at least 1", d->u.conv.stride[0] = 0)                                           \
  X(CT_OP_CONVT, "output's size", d->y.dim[3] = 7)                                                \
  X(CT_OP_CONVT, "fuses nothing", d->u.conv.relu = 1)                                             \
  X(CT_OP_CONVT, "fuses nothing", d->u.conv.add = 1)                                              \
  X(CT_OP_CONVOLVE, "N x C x H x W", d->x.ndim = d->y.ndim = 3)                                   \
  X(CT_OP_CONVOLVE, "weight is not", d->x2.dim[0] = 5)                                            \
  X(CT_OP_CONVOLVE, "weight is not", d->u.conv.groups = 2)                                        \
  X(CT_OP_CONVOLVE, "the reverse", d->u.conv.bias = 0)                                            \
  X(CT_OP_CONVOLVE, "one value per", d->x3.dim[0] = 3)                                            \
  X(CT_OP_CONVOLVE, "fuses nothing", d->u.conv.relu = 1)                                          \
  X(CT_OP_LINEAR, "features", d->y.ndim = 2)                                                      \
  X(CT_OP_LINEAR, "before the last", d->y.dim[1] = 4)                                             \
  X(CT_OP_BNORM, "N x C", d->x.ndim = d->y.ndim = 1)                                              \
  X(CT_OP_BNORM, "in shape", d->y.dim[1] = 5)                                                     \
  X(CT_OP_BNORM, "eps", d->u.bnorm.eps = -1e-5)                                                   \
  X(CT_OP_BNORM, "eps", d->u.bnorm.eps = NAN)                                                     \
  X(CT_OP_BNORM, "training only", d->u.bnorm.sync = 1)                                            \
  X(CT_OP_BNORM, "not larger", d->within = d->x.dim[1])                                           \
  X(CT_OP_BNORM, "whole tensors", (d->within = 99, d->u.bnorm.add = 1))                           \
  X(CT_OP_RELU, "in shape", d->y.dim[2] = 4)                                                      \
  X(CT_OP_ADD, "in shape", d->y.ndim = 3)                                                         \
  X(CT_OP_ACT, "unknown activation", d->u.act.kind = (ct_act_t)CT_ACT_COUNT)                      \
  X(CT_OP_ACT, "slope", d->u.act.alpha = -0.1)                                                    \
  X(CT_OP_ACT, "factor", d->u.act.kind = CT_ACT_TANH)                                             \
  X(CT_OP_ACT, "in shape", d->y.dim[3] = 4)                                                       \
  X(CT_OP_POOL, "N x C x H x W", d->x.ndim = d->y.ndim = 3)                                       \
  X(CT_OP_POOL, "channels", d->y.dim[1] = 5)                                                      \
  X(CT_OP_CONV_POOL, "takes N x C x H x W", d->y.ndim = 3)                                        \
  X(CT_OP_CONV_POOL, "at least 1", d->u.conv_pool.conv.stride[1] = 0)                             \
  X(CT_OP_CONV_POOL, "adds nothing", d->u.conv_pool.conv.add = 1)                                 \
  X(CT_OP_CONV_POOL, "two activations", d->u.conv_pool.conv.relu = d->u.conv_pool.pool.relu = 1)  \
  X(CT_OP_CONV_POOL, "unknown activation", d->u.conv_pool.act = 1 + CT_ACT_COUNT)                 \
  X(CT_OP_CONV_POOL, "without padding", d->u.conv_pool.pool.pad[0] = 1)                           \
  X(CT_OP_CONV_POOL, "1 to all rows", d->u.conv_pool.rows = 2)                                    \
  X(CT_OP_CONV_POOL, "multiple of the groups", d->u.conv_pool.conv.groups = 3)                    \
  X(CT_OP_CONV_POOL, "out of range", (d->u.conv_pool.act = 1, d->u.conv_pool.alpha = -1))         \
  X(CT_OP_CONV_POOL, "at least 1", d->u.conv_pool.pool.kernel[0] = 0)                             \
  X(CT_OP_CONV_POOL, "ends outside",                                                              \
    (d->u.conv_pool.pool.ceil = 1, d->x.dim[2] = 7, d->y.dim[2] = 2))                             \
  X(CT_OP_POOL, "has a ReLU", d->u.pool.average = d->u.pool.relu = 1)                             \
  X(CT_OP_POOL, "has a ReLU", d->u.pool.adaptive = d->u.pool.relu = 1)                            \
  X(CT_OP_POOL, "at least 1", d->u.pool.stride[1] = 0)                                            \
  X(CT_OP_POOL, "half of the kernel", d->u.pool.pad[0] = 2)                                       \
  X(CT_OP_POOL, "output's size", d->y.dim[2] = 2)                                                 \
  X(CT_OP_POOL, "output's size", d->u.pool.global = 1)                                            \
  X(CT_OP_POOL, "output's size", d->u.pool.gap[0] = 1)                                            \
  X(CT_OP_POOL, "has gaps", d->u.pool.gap[1] = -1)                                                \
  X(CT_OP_POOL, "has gaps", d->u.pool.average = d->u.pool.gap[0] = 1)                             \
  X(CT_OP_POOL, "has a divisor", d->u.pool.divisor = 2)                                           \
  X(CT_OP_POOL, "has a divisor", (d->u.pool.average = 1, d->u.pool.divisor = -1))                 \
  X(CT_OP_CONCAT, "in dimensions", d->y.ndim = 3)                                                 \
  X(CT_OP_CONCAT, "too small", d->y.dim[1] = 4)                                                   \
  X(CT_OP_CONCAT, "only the channels", d->y.dim[3] = 6)                                           \
  X(CT_OP_CONCAT, "only the features", (d->x.ndim = d->y.ndim = 3, d->y.dim[2] = 9))              \
  X(CT_OP_CONCAT, "not one of the", d->u.concat.along = 5)                                        \
  X(CT_OP_CONCAT, "not larger", d->within = d->y.dim[1])                                          \
  X(CT_OP_CONCAT, "not channels",                                                                 \
    (d->u.concat.placed = 1, d->u.concat.along = 4, d->y.dim[1] = d->x.dim[1], d->y.dim[3]++))    \
  X(CT_OP_CONCAT, "not one of the", d->u.concat.along = -1)                                       \
  X(CT_OP_CONCAT, "dim that is", (d->u.concat.along = 4, d->y.dim[3] = 6))                        \
  X(CT_OP_DROPOUT, "0 to 1", d->u.dropout.p = 1.5)                                                \
  X(CT_OP_DROPOUT, "0 to 1", d->u.dropout.p = NAN)                                                \
  X(CT_OP_DROPOUT, "not one of the", d->u.dropout.dim = 4)                                        \
  X(CT_OP_DROPOUT, "multiple of the rows", d->u.dropout.rows = 3)                                 \
  X(CT_OP_DROPOUT, "in shape", d->y.dim[1] = 5)                                                   \
  X(CT_OP_DROPOUT, "whole rows", d->u.dropout.whole = d->u.dropout.dim = 1)                       \
  X(CT_OP_RANDOM, "no gradient", d->passes |= CT_BWD_DATA)                                        \
  X(CT_OP_RANDOM, "distribution", d->u.random.kind = CT_RANDOM_COUNT)                             \
  X(CT_OP_RANDOM, "0 to 1", d->u.random.p = -1)                                                   \
  X(CT_OP_EXPR, "does not fit", d->x2.dim[0] = 3)                                                 \
  X(CT_OP_EXPR, "does not fit", d->x2 = ct_shape(5, 1, 1, 4, 5, 5))                               \
  X(CT_OP_EXPR, "larger than", (d->x.dim[0] = 1, d->y.dim[0] = 2))                                \
  X(CT_OP_EXPR, "second one", (d->x2.ndim = 0, d->x3 = ct_shape(1, 5)))                           \
  X(CT_OP_EXPR, "differ in type", d->x2.dtype = CT_BF16)                                          \
  X(CT_OP_EXPR, "no shape", (d->u.expr.weight = 1, d->x2.ndim = 0))                               \
  X(CT_OP_EXPR, "no parameter", d->passes |= CT_BWD_PARAM)                                        \
  X(CT_OP_EXPR, "1 to 16 steps", d->u.expr.steps = 0)                                             \
  X(CT_OP_EXPR, "0 to 8", d->u.expr.consts = 9)                                                   \
  X(CT_OP_EXPR, "unknown function", d->u.expr.step[0].fn = CT_FN_COUNT)                           \
  X(CT_OP_EXPR, "input that is missing", d->u.expr.step[0].of[0] = 2)                             \
  X(CT_OP_EXPR, "constant that is missing", d->u.expr.step[0].of[0] = CT_EXPR_CONST)              \
  X(CT_OP_EXPR, "a later one", d->u.expr.step[0].of[0] = CT_EXPR_STEP)                            \
  X(CT_OP_EXPR, "not a constant", d->u.expr.step[1].fn = CT_FN_ELU)                               \
  X(CT_OP_EXPR, "is not used", d->u.expr.step[1].of[1] = 1)                                       \
  X(CT_OP_EXPR, "is not used", d->u.expr.step[0].of[0] = 0)                                       \
  X(CT_OP_LNORM, "features", d->x.ndim = d->y.ndim = 1)                                           \
  X(CT_OP_LNORM, "fewer dims", d->u.lnorm.dims = 5)                                               \
  X(CT_OP_LNORM, "in shape", d->y.dim[3] = 4)                                                     \
  X(CT_OP_LNORM, "eps", d->u.lnorm.eps = -1)                                                      \
  X(CT_OP_POSITION, "no gradient", d->passes |= CT_BWD_DATA)                                      \
  X(CT_OP_POSITION, "the places are not N x T", d->y.dim[1] = 4)                                  \
  X(CT_OP_POSITION, "first places", d->x = ct_shape(3, 2, 3, 4); d->u.position.relative = 1)      \
  X(CT_OP_ROPE, "no heads", d->u.rope.heads = 0)                                                  \
  X(CT_OP_ROPE, "an even number", d->u.rope.dim = 3)                                              \
  X(CT_OP_ROPE, "more features", d->u.rope.heads = 3)                                             \
  X(CT_OP_ROPE, "theta", d->u.rope.theta = 0)                                                     \
  X(CT_OP_ROPE, "unknown scaling", d->u.rope.scaling = CT_ROPE_SCALINGS)                          \
  X(CT_OP_ROPE, "factor", d->u.rope.scaling = CT_ROPE_LINEAR)                                     \
  X(CT_OP_ROPE, "0 < low < high", d->u.rope.scaling = CT_ROPE_LLAMA3; d->u.rope.factor = 8)       \
  X(CT_OP_ROPE, "N x T x F", d->y.dim[1] = 4)                                                     \
  X(CT_OP_ROPE, "places", d->x2 = ct_shape(2, 2, 4))                                              \
  X(CT_OP_GNORM, "N x C", d->x.ndim = d->y.ndim = 1)                                              \
  X(CT_OP_GNORM, "in shape", d->y.dim[1] = 5)                                                     \
  X(CT_OP_GNORM, "groups", d->u.gnorm.groups = 0)                                                 \
  X(CT_OP_GNORM, "groups", d->u.gnorm.groups = 3)                                                 \
  X(CT_OP_GNORM, "eps", d->u.gnorm.eps = NAN)                                                     \
  X(CT_OP_LSTM, "N x T x F", d->x.ndim = 2)                                                       \
  X(CT_OP_LSTM, "steps", d->y.dim[1] = 4)                                                         \
  X(CT_OP_GRU, "N x T x F", d->x.ndim = 2)                                                        \
  X(CT_OP_GRU, "steps", d->y.dim[1] = 4)                                                          \
  X(CT_OP_ATTENTION, "N x T x D", d->y.dim[2] = 4)                                                \
  X(CT_OP_ATTENTION, "heads", d->u.attention.heads = 3)                                           \
  X(CT_OP_ATTENTION, "heads", d->u.attention.heads = 0)                                           \
  X(CT_OP_TOKENS, "N x D x H x W", d->x.ndim = 3)                                                 \
  X(CT_OP_TOKENS, "1 + H W", d->y.dim[1] = 9)                                                     \
  X(CT_OP_TOKENS, "1 + H W", d->y.dim[2] = 5)                                                     \
  X(CT_OP_OPERAND, "no input", d->passes |= CT_BWD_DATA)                                          \
  X(CT_OP_SELECT, "gives N x D", d->y.ndim = 3)                                                   \
  X(CT_OP_SELECT, "features", d->y.dim[1] = 9)                                                    \
  X(CT_OP_CACHE, "no gradient", d->passes |= CT_BWD_DATA)                                         \
  X(CT_OP_CACHE, "N x S x F", d->y.ndim = 2)                                                      \
  X(CT_OP_CACHE, "samples or features", d->y.dim[2] = 9)                                          \
  X(CT_OP_SELECT, "out of range", d->u.select.index = 3)                                          \
  X(CT_OP_SELECT, "out of range", d->u.select.index = -2)                                         \
  X(CT_OP_MATMUL, "2 dims or more", d->x2.ndim = 1)                                               \
  X(CT_OP_MATMUL, "other dims", d->y.ndim = 2)                                                    \
  X(CT_OP_MATMUL, "inner sizes", d->u.matmul.b_turned = 1)                                        \
  X(CT_OP_MATMUL, "not that of the product", d->y.dim[2] = 4)                                     \
  X(CT_OP_MATMUL, "cannot be broadcast", d->y.dim[0] = 3)                                         \
  X(CT_OP_MATMUL, "in type", d->x2.dtype = CT_BF16)                                               \
  X(CT_OP_SDPA, "differ in dims", d->x3.ndim = 2)                                                 \
  X(CT_OP_SDPA, "last two dims", d->x2.dim[0] = 3)                                                \
  X(CT_OP_SDPA, "differ in features", d->x2.dim[2] = 7)                                           \
  X(CT_OP_SDPA, "as many values", d->x3.dim[1] = 5)                                               \
  X(CT_OP_SDPA, "one row of values", d->y.dim[2] = 8)                                             \
  X(CT_OP_SDPA, "above 0", d->u.sdpa.scale = 0)                                                   \
  X(CT_OP_SDPA, "need `heads`", d->u.sdpa.cached = 1)                                             \
  X(CT_OP_SDPA, "multiple of the heads of", d->u.sdpa.heads = 4, d->u.sdpa.kv_heads = 3)          \
  X(CT_OP_SDPA, "unknown form", d->u.sdpa.heads = 1, d->u.sdpa.packed = 3)                        \
  X(CT_OP_SDPA, "those of its form", d->u.sdpa.heads = 1, d->u.sdpa.packed = 1)                   \
  X(CT_OP_SDPA, "is causal", d->u.sdpa.heads = 1, d->u.sdpa.cached = 1)                           \
  X(CT_OP_SDPA, "multiple of the heads", d->u.sdpa.heads = 3)                                     \
  X(CT_OP_SDPA, "in features of a head", d->u.sdpa.heads = 1, d->x2.dim[2] = 7)                   \
  X(CT_OP_SDPA, "do not fit the keys", d->u.sdpa.heads = 1, d->x3.dim[1] = 5)                     \
  X(CT_OP_SDPA, "unknown mask", d->u.sdpa.heads = 1, d->u.sdpa.mask = CT_MASK_COUNT)              \
  X(CT_OP_SDPA, "needs packed keys", d->u.sdpa.heads = 1, d->u.sdpa.mask = CT_MASK_KEYS)          \
  X(CT_OP_SOFTMAX, "not one of the", d->u.softmax.dim = 4)                                        \
  X(CT_OP_SOFTMAX, "in shape", d->y.dim[1] = 5)                                                   \
  X(CT_OP_REDUCE, "unknown reduction", d->u.reduce.mode = (ct_reduction_t)CT_RED_COUNT)           \
  X(CT_OP_REDUCE, "no dim to reduce", d->u.reduce.dims = 0)                                       \
  X(CT_OP_REDUCE, "not one of the", d->u.reduce.dims = 16)                                        \
  X(CT_OP_REDUCE, "one dim", d->u.reduce.mode = CT_RED_MAX)                                       \
  X(CT_OP_REDUCE, "in shape", d->u.reduce.mode = CT_RED_CUMSUM; d->u.reduce.dims = 4)             \
  X(CT_OP_REDUCE, "order", d->u.reduce.mode = CT_RED_NORM; d->u.reduce.p = 0)                     \
  X(CT_OP_REDUCE, "correction", d->u.reduce.mode = CT_RED_VAR; d->u.reduce.correction = 25)       \
  X(CT_OP_REDUCE, "output's size", d->y.dim[1] = 5)                                               \
  X(CT_OP_REDUCE, "output's size", d->y.ndim = 3)                                                 \
  X(CT_OP_ROWS, "a row for each", d->y.dim[1] = 4)                                                \
  X(CT_OP_ROWS, "2^24", d->u.rows.rows = ((int64_t)1 << 24) + 1)                                  \
  X(CT_OP_ROWS, "such row", d->u.rows.padding = 8)                                                \
  X(CT_OP_ROWS, "dims of a row", d->x2 = ct_shape(2, 7, 4))                                       \
  X(CT_OP_ROWS, "indices are float32", d->x.dtype = CT_BF16)                                      \
  X(CT_OP_STRIDED, "does not have", d->u.strided.from[1] = 4)                                     \
  X(CT_OP_STRIDED, "does not have", d->u.strided.from[1] = -2)                                    \
  X(CT_OP_STRIDED, "edges", d->u.strided.edge[3] = CT_EDGE_COUNT)                                 \
  X(CT_OP_STRIDED, "step is out", d->u.strided.step[3] = (int64_t)1 << 62)                        \
  X(CT_OP_STRIDED, "start is out", d->u.strided.start[0] = -((int64_t)1 << 41))                   \
  X(CT_OP_STRIDED, "not a number", d->u.strided.value = NAN)                                      \
  X(CT_OP_STRIDED, "is empty", d->x.dim[0] = 0)                                                   \
  X(CT_OP_STRIDED, "other elements", d->u.strided.x_view_dims = 9)                                \
  X(CT_OP_STRIDED, "other elements", d->u.strided.y_view_dims = 1)                                \
  X(CT_OP_UPSAMPLE, "N x C x D x H x W", d->x.ndim = d->y.ndim = 3)                               \
  X(CT_OP_UPSAMPLE, "or channels", d->y.dim[1] = 5)                                               \
  X(CT_OP_UPSAMPLE, "unknown mode", d->u.upsample.mode = (ct_resize_t)CT_RESIZE_COUNT)            \
  X(CT_OP_UPSAMPLE, "align corners", d->u.upsample.align_corners = 1)                             \
  X(CT_OP_UPSAMPLE, "negative", d->u.upsample.scale[1] = -1)                                      \
  X(CT_OP_UPSAMPLE, "for images",                                                                 \
    (d->x.ndim = d->y.ndim = 5, d->u.upsample.mode = CT_RESIZE_BICUBIC))                          \
  X(CT_OP_FAKE_QUANT, "in shape", d->y.dim[2] = 4)                                                \
  X(CT_OP_REORDER, "number of elements", d->y.dim[1] = 99)                                        \
  X(CT_OP_LOSS, "unknown loss", d->u.loss.kind = (ct_loss_kind_t)CT_LOSS_COUNT)                   \
  X(CT_OP_HEAD_LOSS, "differ beside the features", d->u.head_loss.loss.classes_last = 0)          \
  X(CT_OP_HEAD_LOSS, "only cross-entropy is fused", d->u.head_loss.loss.kind = CT_LOSS_MSE)       \
  X(CT_OP_HEAD_LOSS, "differ beside the features", d->y.dim[1]++)                                 \
  X(CT_OP_LOSS, "unknown divisor", d->u.loss.divisor = CT_DIVISOR_COUNT)                          \
  X(CT_OP_LOSS, "smoothing", d->u.loss.label_smoothing = 1.1)                                     \
  X(CT_OP_LOSS, "gamma is negative", d->u.loss.gamma = -1)                                        \
  X(CT_OP_LOSS, "gamma is negative", d->u.loss.gamma = NAN)                                       \
  X(CT_OP_LOSS, "for cross_entropy and bce", (d->u.loss.kind = CT_LOSS_MSE, d->u.loss.gamma = 2)) \
  X(CT_OP_LOSS, "with label smoothing", (d->u.loss.gamma = 2, d->u.loss.label_smoothing = 0.1))   \
  X(CT_OP_LOSS, "z-loss is negative", d->u.loss.z_loss = -1)                                      \
  X(CT_OP_LOSS, "for cross_entropy", (d->u.loss.kind = CT_LOSS_MSE, d->u.loss.classes_last = 1))  \
  X(CT_OP_LOSS, "focal alpha", d->u.loss.alpha = 1)                                               \
  X(CT_OP_LOSS, "not above 0", d->u.loss.kind = CT_LOSS_HUBER)                                    \
  X(CT_OP_LOSS, "not above 0", d->u.loss.kind = CT_LOSS_DICE)                                     \
  X(CT_OP_LOSS, "parameter of the loss", d->u.loss.param = -1)                                    \
  X(CT_OP_LOSS, "one-hot labels", (d->u.loss.kind = CT_LOSS_RELATIVE_L2, d->u.loss.one_hot = 1))  \
  X(CT_OP_LOSS, "N x classes", d->x.ndim = 1)                                                     \
  X(CT_OP_GRADSTAT, "above 0", d->u.gradstat.p = 0)                                               \
  X(CT_OP_MEASURE, "optimizer rule", d->u.update.rule = CT_RULE_COUNT)                            \
  X(CT_OP_UPDATE, "optimizer rule", d->u.update.rule = -1)

int case_bad(int i, ct_op_desc_t *d, const char **words)
{
  int at = 0;

#define X(of, text, ...) \
  if (i == at++) {       \
    sound_op(of, d);     \
    __VA_ARGS__;         \
    *words = text;       \
    return 1;            \
  }
  BAD_LIST(X)
#undef X
  return 0;
}
