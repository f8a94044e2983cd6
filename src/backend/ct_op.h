/** \file ct_op.h  One piece of arithmetic as plain data.  Layer 1.
 *
 * A descriptor has no pointers and no handles: after ct_op_desc_init() zeroed it, it can be
 * compared with memcmp, hashed into the plan hash that all ranks agree on, printed, and made up by
 * a test. */
#ifndef CT_OP_H
#define CT_OP_H
#include "backend/ct_int8.h"
#include "base/ct_types.h"

/** What a kind is, a bit set. */
enum {
  CT_KIND_F32 = 1,     /**< stays in float32 in mixed precision: its sums would lose too much */
  CT_KIND_PRODUCT = 2, /**< what low types are for: a backend that cannot do it in them is told */
  CT_KIND_FLAT = 4,    /**< of the optimizer: over a flat range of float32, forward only */
  CT_KIND_INT8 = 8,    /**< from bytes to bytes (ct_int8.h), … */
  CT_KIND_DEQUANT = 16 /**< … and from bytes to float32 */
};

/** In the columns below: op.c says it, op by op; the same as forward. */
enum { CT_KIND_OWN = -1, CT_KIND_FWD = -2 };

/** The kinds, from which the enum, names, tables of the backends, and checks follow:
 *
 *  X(NAME, word, what it is, trained parameters at most,
 *    what a backward pass to data, and one to parameters, is made of besides the gradient of y,
 *    operations of an element of x: forward, backward to data, backward to parameters)
 *
 * A new one: "A new op, step by step" in src/README.md. */
#define CT_OP_LIST(X)                                                                              \
  /* cross-correlation over 2 or 3 dims, optional bias, forward ReLU */                            \
  X(CONV, conv, CT_KIND_PRODUCT | CT_KIND_INT8 | CT_KIND_DEQUANT, 2, 0, CT_USES_X, CT_KIND_OWN,    \
    CT_KIND_FWD, CT_KIND_FWD)                                                                      \
  /* y = x w^T + b over the last dim; forward ReLU */                                              \
  X(LINEAR, linear, CT_KIND_PRODUCT | CT_KIND_INT8 | CT_KIND_DEQUANT, 2, 0, CT_USES_X,             \
    CT_KIND_OWN, CT_KIND_FWD, CT_KIND_FWD)                                                         \
  /* batch normalisation over N and space, then + x2, then ReLU (both optional) */                 \
  X(BNORM, bnorm, 0, 2, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN, 5, 4)                               \
  /* max(x, 0) */                                                                                  \
  X(RELU, relu, CT_KIND_INT8, 0, CT_USES_Y, 0, 1, CT_KIND_FWD, 0)                                  \
  /* another function, element by element */                                                       \
  X(ACT, act, CT_KIND_INT8, 0, CT_KIND_OWN, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                        \
  /* max (saves where it was; ReLU optional) or average over windows, or global average */         \
  X(POOL, pool, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)              \
  /* x + x2, then ReLU (optional) */                                                               \
  X(ADD, add, CT_KIND_INT8, 0, CT_KIND_OWN, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                        \
  /* x, then x2, along ct_op_concat_dim() */                                                       \
  X(CONCAT, concat, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, 0, 0, 0)                              \
  /* x * mask / (1 - p) */                                                                         \
  X(DROPOUT, dropout, 0, 0, 0, 0, 1, CT_KIND_FWD, 0)                                               \
  /* layer normalisation over the last dim */                                                      \
  X(LNORM, lnorm, CT_KIND_F32, 2, CT_USES_X, CT_USES_X, 7, 5, 4)                                   \
  /* normalisation of a sample over groups of channels and all of the space */                     \
  X(GNORM, gnorm, 0, 2, CT_USES_X, CT_USES_X, 7, 5, 4)                                             \
  /* one LSTM level over a sequence N x T x F */                                                   \
  X(LSTM, lstm, 0, 4, 0, CT_USES_X | CT_USES_Y, CT_KIND_OWN, CT_KIND_FWD, CT_KIND_FWD)             \
  /* multi-head self-attention of N x T x D */                                                     \
  X(ATTENTION, attention, 0, 4, 0, CT_USES_X, CT_KIND_OWN, CT_KIND_FWD, CT_KIND_OWN)               \
  /* N x D x H x W -> N x (1 + HW) x D: class token, patches, + positions */                       \
  X(TOKENS, tokens, 0, 2, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                                       \
  /* N x T x D -> N x D: one place of a sequence */                                                \
  X(SELECT, select, CT_KIND_INT8, 0, 0, 0, 0, 0, 0)                                                \
  /* larger by whole factors over 2 or 3 dims: the nearest, or linear between */                   \
  X(UPSAMPLE, upsample, 0, 0, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                                   \
  /* x in another layout, type (a cast) or with other dims (flatten); CT_U8: samples to numbers */ \
  X(REORDER, reorder, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, 0, 0, 0)                            \
  /* x rounded as if it were in eight bits (ct_fake_quant.h) */                                    \
  X(FAKE_QUANT, fake_quant, CT_KIND_F32, 0, CT_USES_X, 0, 4, CT_KIND_FWD, 0)                       \
  /* loss of outputs against targets, and its counts */                                            \
  X(LOSS, loss, CT_KIND_F32, 0, CT_USES_X, 0, 4, CT_KIND_FWD, 0)                                   \
  /* sum of |g|^p or largest |g| of a flat range, and whether all are finite */                    \
  X(GRADSTAT, gradstat, CT_KIND_FLAT, 0, 0, 0, 2, 0, 0)                                            \
  /* norms of one parameter that a rule wants before its update (LARS, LAMB) */                    \
  X(MEASURE, measure, CT_KIND_FLAT, 0, 0, 0, 2, 0, 0)                                              \
  /* one optimizer rule over flat ranges */                                                        \
  X(UPDATE, update, CT_KIND_FLAT, 0, 0, 0, 6, 0, 0)

typedef enum {
#define X(name, ...) CT_OP_##name,
  CT_OP_LIST(X)
#undef X
      CT_OP_COUNT
} ct_op_kind_t;

/** Passes, a bit set.  A backward run with both bits does both in the order that is fastest.  The
 * two STATS passes are of a BNORM with `sync` only: they leave the local sums in
 * ct_op_args_t.stats, which the caller sums over a group of ranks before the pass itself is run. */
enum { CT_FWD = 1, CT_BWD_DATA = 2, CT_BWD_PARAM = 4, CT_FWD_STATS = 8, CT_BWD_STATS = 16 };

/** What a backward pass is made of besides the gradient of y and the parameters. */
enum { CT_USES_X = 1, CT_USES_Y = 2 };

/** What the alpha of an activation must be. */
enum {
  CT_ALPHA_NONE,  /**< it has none */
  CT_ALPHA_SLOPE, /**< negative_slope: at least 0 */
  CT_ALPHA_FACTOR /**< factor of the result: above 0 */
};

/** What CT_OP_ACT computes, in PyTorch's words: X(NAME, word, what the derivative is made of,
 * alpha, 1 if f(0) = 0, operations of an element).  A new one is a row here, its formula in each
 * backend, and its layer (model/layer_act.c). */
#define CT_ACT_LIST(X)                                                  \
  X(CT_ACT_LEAKY_RELU, leaky_relu, CT_USES_Y, CT_ALPHA_SLOPE, 1, 1)     \
  X(CT_ACT_RELU6, relu6, CT_USES_Y, CT_ALPHA_NONE, 1, 1)                \
  X(CT_ACT_GELU, gelu, CT_USES_X, CT_ALPHA_NONE, 1, 4) /* exact: erf */ \
  X(CT_ACT_SIGMOID, sigmoid, CT_USES_Y, CT_ALPHA_NONE, 0, 4)            \
  X(CT_ACT_TANH, tanh, CT_USES_Y, CT_ALPHA_FACTOR, 1, 4)                \
  X(CT_ACT_SILU, silu, CT_USES_X, CT_ALPHA_NONE, 1, 4)

typedef enum {
#define X(name, ...) name,
  CT_ACT_LIST(X)
#undef X
} ct_act_t;

/** Losses that are a mean over a sample's outputs, each with its target or, of a label, its
 * one-hot: X(NAME, word, what it is).  A new one is a row here and its formula in each backend. */
#define CT_POINT_LOSS_LIST(X)          \
  X(CT_LOSS_MSE, mse, "squared error") \
  X(CT_LOSS_L1, l1, "absolute error")  \
  X(CT_LOSS_BCE, bce, "binary cross-entropy with logits")

/** What CT_OP_LOSS computes. */
typedef enum {
  CT_LOSS_CROSS_ENTROPY, /**< softmax; labels */
#define X(name, ...) name,
  CT_POINT_LOSS_LIST(X)
#undef X
} ct_loss_kind_t;

/** How many there are.  Not among the kinds, so that a switch over them is complete without. */
enum {
#define X(...) +1
  CT_ACT_COUNT = CT_ACT_LIST(X),
  CT_LOSS_COUNT = 1 CT_POINT_LOSS_LIST(X)
#undef X
};

/** Which loss. */
typedef struct ct_loss_spec {
  ct_loss_kind_t kind;
  int one_hot;              /**< of CT_POINT_LOSS_LIST: 1 = of labels; 0 = of targets */
  int weighted;             /**< CROSS_ENTROPY: class_weight is given */
  int sample_weighted;      /**< sample_weight is given */
  int has_ignored, ignored; /**< CROSS_ENTROPY: samples with this label count for nothing */
  double label_smoothing;   /**< CROSS_ENTROPY, as torch.nn.CrossEntropyLoss */
} ct_loss_spec_t;

enum { CT_RELU6 = 6 }; /**< BNORM's `relu` that also cuts at 6 */

/** What a kind computes, in PyTorch's words, and which arguments (ct_op_args_t) it takes:
 *
 *  kind     forward                               backward
 *  CONV     x, x2?, w[0] OIHW, w[1] bias -> y     x, dy, w -> dx, dw[0], dw[1]
 *  LINEAR   x [N,in], w[0] [out,in], w[1] -> y    x, dy, w -> dx, dw[0], dw[1]
 *  BNORM    x, x2?, w[0] weight, w[1] bias,       x, y?, dy (+ dy2) -> dx, dx2?, dw[0], dw[1]
 *           w[2] running_mean, w[3] running_var
 *           with sync: x -> stats, then          x, y?, dy (+ dy2) -> stats, dw[0], dw[1], then
 *           stats, x, … -> y                      stats, x, … -> dx, dx2?
 *  RELU     x -> y                                y, dy (+ dy2) -> dx
 *  ACT      x -> y                                x or y, dy -> dx
 *  POOL     x -> y                                dy (+ dy2), saved -> dx
 *  ADD      x, x2 -> y                            with relu: y, dy (+ dy2) -> dx (of both)
 *  CONCAT   x, x2 -> y                            dy -> dx, dx2 (either may be NULL)
 *  DROPOUT  x -> y                                dy -> dx
 *  LNORM    x, w[0] weight, w[1] bias -> y        x, dy, w -> dx, dw[0], dw[1]
 *  GNORM    x, w[0] weight, w[1] bias (affine)    x, dy (+ dy2), w -> dx, dw[0], dw[1]
 *           -> y
 *  LSTM     x [N,T,F], w[0] weight_ih [4H,F],     x, y, dy, w, saved -> dx, dw[0..3]
 *           w[1] weight_hh [4H,H], w[2] bias_ih,
 *           w[3] bias_hh -> y [N,T,H]
 *  ATTENTION x [N,T,D], w[0] in_proj_weight       x, dy, w, saved -> dx, dw[0..3]
 *           [3D,D], w[1] in_proj_bias, w[2]
 *           out_proj.weight, w[3] out_proj.bias
 *           -> y [N,T,D]
 *  TOKENS   x [N,D,H,W], w[0] class_token [D],    dy -> dx, dw[0], dw[1]
 *           w[1] pos_embedding [1+HW,D] -> y
 *  SELECT   x [N,T,D] -> y [N,D]                  dy -> dx (zero elsewhere)
 *  UPSAMPLE x -> y, its dims multiples of x's     dy -> dx
 *  REORDER  x -> y                                dy -> dx
 *           x CT_U8: x, affine -> y = a[c] x + b[c], rounded to float32 twice  -
 *  FAKE_QUANT x, w[0] range [2] -> y              x, dy -> dx
 *           training: w[0] follows x before
 *  LOSS     x [N,K], labels or targets -> loss    x, … -> dx = scale * d(sum of losses)/dx
 *           CROSS_ENTROPY: x [N,K] or [N,K,…]
 *  GRADSTAT dy gradient, count -> stat            -
 *  MEASURE  w[0] weights, dy gradient, state -> norms   -
 *  UPDATE   w[0] weights, dy gradient, state, stat?, norms?  -
 *           -> w[0], state, y: the weights in y's type, if that is a low one
 *
 * In eight bits (`q`) an op takes activations CT_U8 and gives CT_U8, or float32 (CONV, LINEAR,
 * POOL, CONCAT, REORDER); its weights are rounded as ct_int8.h says, sums are exact, and the
 * result is rounded once.  Maximum pooling, SELECT, and a REORDER between bytes keep the pair of
 * x.  REORDER from float32 to CT_U8 rounds, back makes numbers.  With `dynamic` x is rounded to
 * the 256 numbers between its least and its largest of the batch (an LSTM's h is not).
 *
 * The `relu` of CONV and LINEAR acts in the forward pass only: their backward takes dy as the
 * gradient of the value before the ReLU (the plan puts a RELU backward in front).  BNORM, POOL and
 * ADD with `relu` take dy as the gradient of their output and mask it themselves. */
typedef struct ct_op_desc {
  ct_op_kind_t kind;
  int passes;   /**< CT_FWD | ... : what will be run; others need not be prepared */
  int training; /**< BNORM: batch statistics, updates running ones (0: the running ones; backward
                     takes them for constants); DROPOUT: drops; FAKE_QUANT: range follows x */
  ct_shape_t x; /**< input, with its layout */
  ct_shape_t y; /**< output; its layout is the op's choice (ct_op_info_t), but REORDER's is given */
  struct {
    ct_quant_pair_t x, x2, y; /**< of those that are CT_U8 (ct_int8.h); scale 0: plain bytes */
    int dynamic; /**< LINEAR, LSTM of float32: products in eight bits, with pairs of this batch */
  } q;
  union {
    struct {
      int kernel[3], stride[3], pad[3], dilate[3]; /**< one for each of the 2 (H, W) or 3 (D, H, W)
                                                        spatial dims; dilate 1: dense */
      int groups, bias, relu;
      int add; /**< inference: x2, of y's shape and layout, is summed in before the ReLU */
    } conv;
    struct {
      int bias, relu;
    } linear;
    struct {
      double eps, momentum; /**< running = (1 - momentum) * running + momentum * batch */
      int relu, add;        /**< relu: 1, or CT_RELU6; add: x2 is summed in before it */
      int sync;             /**< training: statistics of a group of ranks (SyncBN) */
    } bnorm;
    struct {
      ct_act_t kind;
      double alpha; /**< CT_ALPHA_… */
    } act;
    struct {
      int kernel[3], stride[3], pad[3]; /**< as conv's */
      int average;                      /**< 0: max */
      int global;                       /**< average over all of the space; y is N x C x 1 x 1 */
      int adaptive;    /**< average; output i of n is of the inputs floor(i in / n) up to
                         ceil((i + 1) in / n), as AdaptiveAvgPool2d; no kernel, stride, pad */
      int include_pad; /**< averages divide by the whole window (PyTorch's count_include_pad) */
      int relu;        /**< max only */
    } pool;
    struct {
      int relu;
    } add;
    struct {
      double p;       /**< probability to drop */
      uint32_t layer; /**< number of the layer: its stream of random numbers */
    } dropout;
    struct {
      double eps;
    } lnorm;
    struct {
      double eps;
      int groups; /**< of neighbouring channels, all of one size */
      int affine; /**< each channel has a weight and a bias */
    } gnorm;
    struct {
      int heads;
    } attention;
    struct {
      int index; /**< from 0; -1: the last */
    } select;
    struct {
      int linear; /**< as torch.nn.functional.interpolate with align_corners = False; 0: nearest */
    } upsample;
    ct_loss_spec_t loss;
    struct {
      double p; /**< of the norm; infinity: the largest */
    } gradstat;
    struct {
      int rule; /**< ct_rule_t, ct_rules.h; of MEASURE too */
    } update;
  } u;
} ct_op_desc_t;

/** 1 if activations, weights or both are numbers in eight bits: forward only. */
static inline int ct_op_is_int8(const ct_op_desc_t *d)
{
  return d->q.dynamic || (d->x.dtype == CT_U8 && d->q.x.scale > 0) ||
         (d->y.dtype == CT_U8 && d->q.y.scale > 0);
}
/** 1 if a backward pass will be run. */
static inline int ct_op_goes_back(const ct_op_desc_t *d)
{
  return (d->passes & (CT_BWD_DATA | CT_BWD_PARAM | CT_BWD_STATS)) != 0;
}
/** Zeroes the whole descriptor, padding included, and sets kind, passes = CT_FWD and the shapes. */
void ct_op_desc_init(ct_op_desc_t *d, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y);
/** The same for GRADSTAT (which looks at p), MEASURE and UPDATE (at the rule), over \a count
 * elements. */
void ct_op_desc_flat(ct_op_desc_t *d, ct_op_kind_t kind, int64_t count, int rule, double p);
/** The dim along which CONCAT joins shapes like \a x: the channels; of sequences the features. */
int ct_op_concat_dim(const ct_shape_t *x);
/** In the plain layout, the elements of \a s that follow each other there: a row of a sample, or of
 * a step of a sequence. */
int64_t ct_op_concat_row(const ct_shape_t *s);
/** The shape of x2: that of x, but CONCAT's has the channels of y that x leaves, and CONV's is that
 * of y. */
ct_shape_t ct_op_second(const ct_op_desc_t *d);
/** Pure.  1 if this can be computed at all: kinds, passes, types, ranges, and how x and y fit; else
 * 0 with the reason.  A backend asks this before its own limits. */
int ct_op_check(const ct_op_desc_t *d, char why[128]);
/** CT_USES_X | CT_USES_Y: what the formulas of the backward passes that are prepared are made of.
 * A backend may find it otherwise (ct_op_info_t.bwd_uses). */
int ct_op_uses(const ct_op_desc_t *d);
#define CT_OP_PARAMS 4 /**< most trained parameters any op has */
/** Elements of trained parameter 0 … CT_OP_PARAMS - 1; 0: the op has none. */
int64_t ct_op_param_count(const ct_op_desc_t *d, int param);

/** What is the same of an activation everywhere: a row of CT_ACT_LIST. */
typedef struct ct_act_facts {
  const char *name;
  int uses, alpha, keeps_zero;
  double flops;
} ct_act_facts_t;
/** A kind beyond the last is "unknown". */
const ct_act_facts_t *ct_act_facts_of(ct_act_t kind);
const char *ct_loss_name(ct_loss_kind_t kind);

/** Local.  CT_ERR_ARG: a run of no pass, or of one that the op was not prepared for. */
int ct_op_check_pass(const ct_op_desc_t *d, int pass);
/** Places of a sample that a LOSS takes one by one, each with a label of its own: those of
 * CROSS_ENTROPY's x [N,K,…]; else 1. */
int64_t ct_op_places(const ct_op_desc_t *d);
/** What is the same of all ops of a kind: a row of CT_OP_LIST. */
typedef struct ct_op_facts {
  const char *name; /**< "conv", "bnorm", … */
  int is;           /**< CT_KIND_… */
  int params;       /**< trained ones, at most */
  int data_uses, param_uses;
  int flops, data_flops, param_flops; /**< of an element of x */
} ct_op_facts_t;
/** A kind beyond the last is "unknown". */
const ct_op_facts_t *ct_op_facts_of(ct_op_kind_t kind);
/** Its name. */
const char *ct_op_name(ct_op_kind_t kind);
/** 1 if it has that bit, CT_KIND_…. */
static inline int ct_op_is(ct_op_kind_t kind, int bit)
{
  return (ct_op_facts_of(kind)->is & bit) != 0;
}
/** "conv 16x64x56x56 -> 16x64x56x56 k3x3 s1 p1 relu" into buf (returned). */
const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap);
/** What a set of passes is called: "forward", "backward", "backward data", "backward weights", or
 * "sums" of batchnorm's statistics. */
const char *ct_op_pass_text(int pass);
/** Floating-point operations of one pass (a multiply-add is two), by the direct algorithm. */
double ct_op_flops(const ct_op_desc_t *d, int pass);
/** Spatial output size of a window: floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1. */
int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate);

#endif
