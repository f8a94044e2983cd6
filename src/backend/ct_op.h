/** \file ct_op.h  Op descriptors: one operation as plain data.  Layer 1.
 *
 * A descriptor has no pointers and no handles.  After ct_op_desc_init() zeroed it, it can be
 * compared with memcmp, hashed into the plan hash that all ranks agree on, printed, and generated
 * by a test. */
#ifndef CT_OP_H
#define CT_OP_H
#include "backend/ct_expr.h"
#include "backend/ct_int8.h"
#include "backend/ct_op_loss.h"
#include "backend/ct_op_modes.h"
#include "backend/ct_op_windows.h"
#include "backend/ct_resize.h"
#include "backend/ct_rope.h"
#include "base/ct_types.h"

/** Properties of a kind of op, a bit set. */
enum {
  CT_KIND_F32 = 1,  /**< computed in float32 in mixed precision: its sums would lose accuracy */
  CT_KIND_GEMM = 2, /**< profits most from reduced precision: in mixed precision it is an error if
                         the backend supports the kind in float32 only */
  CT_KIND_FLAT = 4, /**< an optimizer op: over a flat range of float32, forward only */
  CT_KIND_INT8 = 8, /**< has an int8 version with uint8 output (ct_int8.h) */
  CT_KIND_DEQUANT = 16, /**< has an int8 version with float32 output */
  CT_KIND_INDEX = 64,   /**< x holds indices: ct_op_indices() */
  CT_KIND_SHAPES = 32   /**< the descriptor has the shapes of x2 and x3 */
};

/** Special values in the table below.  OWN: op.c decides per op.  FWD: as forward. */
enum { CT_KIND_OWN = -1, CT_KIND_FWD = -2 };

/** All kinds of ops.  The enum, the names, the backends' tables and the checks follow from this
 * list:
 *
 *  X(NAME, word, properties, maximum number of trained parameters,
 *    tensors that backward to data needs besides dy, tensors that backward to parameters needs,
 *    operations per element of x: forward, backward to data, backward to parameters)
 *
 * "A new op, step by step" in src/README.md explains how to add a kind. */
#define CT_OP_LIST(X)                                                                             \
  /* convolution (cross-correlation) over 2 or 3 dims; optional bias; optional ReLU in forward */ \
  X(CONV, conv, CT_KIND_GEMM | CT_KIND_INT8 | CT_KIND_DEQUANT, 2, 0, CT_USES_X, CT_KIND_OWN,      \
    CT_KIND_FWD, CT_KIND_FWD)                                                                     \
  /* a convolution's backward pass to its data as a layer (transposed); optional bias */          \
  X(CONVT, convt, CT_KIND_GEMM, 2, 0, CT_USES_X, CT_KIND_OWN, CT_KIND_FWD, CT_KIND_FWD)           \
  /* convolution whose weight, and bias if any, are inputs */                                     \
  X(CONVOLVE, convolve, CT_KIND_SHAPES, 0, CT_USES_X, 0, CT_KIND_OWN, CT_KIND_FWD, 0)             \
  /* y = x w^T + b over the last dim; optional + x2, optional ReLU in forward */                  \
  X(LINEAR, linear, CT_KIND_GEMM | CT_KIND_INT8 | CT_KIND_DEQUANT, 2, 0, CT_USES_X, CT_KIND_OWN,  \
    CT_KIND_FWD, CT_KIND_FWD)                                                                     \
  /* batch normalisation over N and pixels; optional + x2, optional ReLU */                       \
  X(BNORM, bnorm, 0, 2, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN, 5, 4)                              \
  /* max(x, 0) */                                                                                 \
  X(RELU, relu, CT_KIND_INT8, 0, CT_USES_Y, 0, 1, CT_KIND_FWD, 0)                                 \
  /* other activation functions */                                                                \
  X(ACT, act, CT_KIND_INT8, 0, CT_KIND_OWN, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                       \
  /* any other elementwise functions of up to three inputs, broadcast to y (ct_expr.h) */         \
  X(EXPR, expr, CT_KIND_SHAPES, 2, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_FWD,            \
    CT_KIND_FWD)                                                                                  \
  /* max (saves the arg-max; optional ReLU) or average over windows, or global average */         \
  X(POOL, pool, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)             \
  /* convolution, activation and pooling; the tensors between are never stored as a whole */      \
  X(CONV_POOL, conv_pool, CT_KIND_GEMM, 2, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN,    \
    CT_KIND_OWN)                                                                                  \
  /* x + x2, then ReLU (optional) */                                                              \
  X(ADD, add, CT_KIND_INT8, 0, CT_KIND_OWN, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                       \
  /* concatenates x and x2 along ct_op_concat_dim() */                                            \
  X(CONCAT, concat, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, 0, 0, 0)                             \
  /* x * mask / (1 - p) */                                                                        \
  X(DROPOUT, dropout, 0, 0, 0, 0, 1, CT_KIND_FWD, 0)                                              \
  /* random numbers; has no input */                                                              \
  X(RANDOM, random, 0, 0, 0, 0, 0, 0, 0)                                                          \
  /* layer normalisation over the last dims */                                                    \
  X(LNORM, lnorm, 0, 2, CT_USES_X, CT_USES_X, 7, 5, 4)                                            \
  /* group normalisation: per sample over groups of channels and all pixels */                    \
  X(GNORM, gnorm, 0, 2, CT_USES_X, CT_USES_X, 7, 5, 4)                                            \
  /* one LSTM layer over a sequence N x T x F */                                                  \
  X(LSTM, lstm, 0, 4, 0, CT_USES_X | CT_USES_Y, CT_KIND_OWN, CT_KIND_FWD, CT_KIND_FWD)            \
  /* one GRU layer over a sequence N x T x F */                                                   \
  X(GRU, gru, 0, 4, CT_USES_Y, CT_USES_X | CT_USES_Y, CT_KIND_OWN, CT_KIND_FWD, CT_KIND_FWD)      \
  /* multi-head self-attention of N x T x D */                                                    \
  X(ATTENTION, attention, 0, 4, 0, CT_USES_X, CT_KIND_OWN, CT_KIND_OWN, CT_KIND_OWN)              \
  /* softmax(x x2^T scale) x3 of the last two dims: attention with given queries, keys, values */ \
  X(SDPA, sdpa, CT_KIND_GEMM | CT_KIND_SHAPES, 0, CT_USES_X | CT_USES_Y, 0, CT_KIND_OWN,          \
    CT_KIND_OWN, 0)                                                                               \
  /* N x D x H x W -> N x (1 + HW) x D: class token, patches, + position embedding */             \
  X(TOKENS, tokens, 0, 2, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                                      \
  /* N x T x D -> N x D: one element of a sequence */                                             \
  X(SELECT, select, CT_KIND_INT8, 0, 0, 0, 0, 0, 0)                                               \
  /* writes x N x T x F to a cache N x S x F, from each sample's position on; forward only */     \
  X(CACHE, cache, 0, 0, 0, 0, 0, 0, 0)                                                            \
  /* copies elements by a map of indices: permute, slice, pad, roll, expand, windows … */       \
  X(STRIDED, strided, 0, 0, 0, 0, 0, 0, 0)                                                        \
  /* rows of a table, which is a parameter or x2, by their indices */                             \
  X(ROWS, rows, CT_KIND_INDEX | CT_KIND_SHAPES, 1, CT_USES_X, CT_USES_X, 0, 0, 0)                 \
  /* places in sequences, counted from 0 or from a given place: N x T */                          \
  X(POSITION, position, CT_KIND_INDEX | CT_KIND_F32, 0, 0, 0, 1, 0, 0)                            \
  /* rotary position embedding of N x T x F (ct_rope.h) */                                        \
  X(ROPE, rope, CT_KIND_SHAPES, 0, 0, 0, 3, CT_KIND_FWD, 0)                                       \
  /* a parameter or buffer as the input of other ops; has no input */                             \
  X(OPERAND, operand, 0, 1, 0, 0, 0, 0, 0)                                                        \
  /* torch.matmul: products of the last two dims; the dims before them broadcast */               \
  X(MATMUL, matmul, CT_KIND_GEMM | CT_KIND_SHAPES, 0, CT_USES_X, 0, CT_KIND_OWN, CT_KIND_OWN, 0)  \
  /* softmax or its logarithm along a dim */                                                      \
  X(SOFTMAX, softmax, 0, 0, CT_USES_Y, 0, 5, 4, 0)                                                \
  /* sum, mean, maximum, … over dims; or the cumulative sum along one */                        \
  X(REDUCE, reduce, 0, 0, CT_KIND_OWN, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                            \
  /* resizing over 2 or 3 dims: nearest, linear or bicubic */                                     \
  X(UPSAMPLE, upsample, 0, 0, 0, 0, CT_KIND_OWN, CT_KIND_FWD, 0)                                  \
  /* x in another layout, type (cast) or shape (flatten); CT_U8: image bytes to floats */         \
  X(REORDER, reorder, CT_KIND_INT8 | CT_KIND_DEQUANT, 0, 0, 0, 0, 0, 0)                           \
  /* fake quantization of x (ct_fake_quant.h) */                                                  \
  X(FAKE_QUANT, fake_quant, CT_KIND_F32, 0, CT_USES_X, 0, 4, CT_KIND_FWD, 0)                      \
  /* loss of outputs against targets, and counts */                                               \
  X(LOSS, loss, CT_KIND_F32, 0, CT_USES_X, 0, 4, CT_KIND_FWD, 0)                                  \
  /* cross-entropy of a linear layer or 1x1 convolution, whose output y is never stored */        \
  X(HEAD_LOSS, head_loss, CT_KIND_GEMM, 2, CT_USES_X, CT_USES_X, CT_KIND_OWN, CT_KIND_FWD,        \
    CT_KIND_FWD)                                                                                  \
  /* sum of |g|^p or largest |g| of a flat range, and the number of nonfinite elements */         \
  X(GRADSTAT, gradstat, CT_KIND_FLAT, 0, 0, 0, 2, 0, 0)                                           \
  /* norms of one parameter that a rule reads (LARS, LAMB) */                                     \
  X(MEASURE, measure, CT_KIND_FLAT, 0, 0, 0, 2, 0, 0)                                             \
  /* one optimizer rule over flat ranges */                                                       \
  X(UPDATE, update, CT_KIND_FLAT, 0, 0, 0, 6, 0, 0)

typedef enum {
#define X(name, ...) CT_OP_##name,
  CT_OP_LIST(X)
#undef X
      CT_OP_COUNT
} ct_op_kind_t;

/** Passes, a bit set.  A backward run with both bits computes both gradients in the fastest order.
 * The two STATS passes exist only for a BNORM with `sync`: they write the local sums to
 * ct_op_args_t.stats; the caller all-reduces the sums over the group before it runs CT_FWD or
 * CT_BWD_DATA. */
enum { CT_FWD = 1, CT_BWD_DATA = 2, CT_BWD_PARAM = 4, CT_FWD_STATS = 8, CT_BWD_STATS = 16 };

/** Tensors that a backward pass needs besides dy and the parameters. */
enum { CT_USES_X = 1, CT_USES_Y = 2 };

/** Which alpha an activation has. */
enum {
  CT_ALPHA_NONE,  /**< none */
  CT_ALPHA_SLOPE, /**< negative_slope: at least 0 */
  CT_ALPHA_FACTOR /**< factor of the result: above 0 */
};

/** The functions of CT_OP_ACT, named as in PyTorch: X(NAME, word, tensors that the derivative
 * needs, alpha, 1 if f(0) = 0, operations per element).  To add one: a row here, its formula in
 * each backend, and its layer (model/layer_act.c). */
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

/** What CT_OP_REDUCE computes over some dims of x, named as in PyTorch: X(NAME, word, tensors that
 * the gradient needs, operations per element). */
#define CT_RED_LIST(X)                                                                       \
  X(CT_RED_SUM, sum, 0, 1)                                                                   \
  X(CT_RED_MEAN, mean, 0, 1)                                                                 \
  X(CT_RED_AMAX, amax, CT_USES_X | CT_USES_Y, 1) /* equal values share the gradient */       \
  X(CT_RED_AMIN, amin, CT_USES_X | CT_USES_Y, 1)                                             \
  X(CT_RED_MAX, max, CT_USES_X | CT_USES_Y, 1) /* the first of equal values has it; 1 dim */ \
  X(CT_RED_MIN, min, CT_USES_X | CT_USES_Y, 1)                                               \
  X(CT_RED_PROD, prod, CT_USES_X, 1)                                                         \
  X(CT_RED_NORM, norm, CT_USES_X | CT_USES_Y, 2) /* (sum of |x|^p)^(1/p) */                  \
  X(CT_RED_VAR, var, CT_USES_X, 4)                                                           \
  X(CT_RED_STD, std, CT_USES_X | CT_USES_Y, 4)                                               \
  X(CT_RED_LOGSUMEXP, logsumexp, CT_USES_X | CT_USES_Y, 4)                                   \
  X(CT_RED_CUMSUM, cumsum, 0, 1) /* y has the shape of x; 1 dim */

typedef enum {
#define X(name, ...) name,
  CT_RED_LIST(X)
#undef X
} ct_reduction_t;

/** Masks of SDPA. */
typedef enum {
  CT_MASK_NONE,
  CT_MASK_FIRST, /**< N x T: the first key that a query meets; float32 in any case */
  CT_MASK_KEYS,  /**< N x S: 0 hides a key; float32 in any case */
  CT_MASK_BIAS,  /**< [[N|1,] H|1,] T x S: is added to the scaled products; it has a gradient */
  CT_MASK_COUNT
} ct_mask_t;

/** Numbers of enumerators in the lists above.  Each number is outside the list's enum, so that a
 * switch over the enum needs no case for the number. */
enum {
#define X(...) +1
  CT_ACT_COUNT = CT_ACT_LIST(X),
  CT_RED_COUNT = 0 CT_RED_LIST(X)
#undef X
};

enum { CT_RELU6 = 6 }; /**< value of BNORM's `relu` for ReLU6 */

/** The computation of each kind and the arguments (ct_op_args_t) that it reads and writes:
 *
 *  kind     forward                               backward
 *  CONV     x, x2?, w[0] OIHW, w[1] bias -> y     x, dy, w -> dx, dw[0], dw[1]
 *  CONVT    x, w[0] [in, out/groups, window],     x, dy, w -> dx, dw[0], dw[1]
 *           w[1] bias -> y
 *  CONVOLVE x, x2 weight OIHW, x3? bias -> y      x, x2, dy -> dx, dx2, dx3
 *  LINEAR   x [N,in], x2?, w[0] [out,in], w[1]    x, dy, w -> dx, dw[0], dw[1]
 *           -> y
 *  BNORM    x, x2?, w[0] weight, w[1] bias,       x, y?, dy (+ dy2) (dx_add) -> dx, dx2?, dw[0],
 *           w[2] running_mean, w[3] running_var   dw[1]
 *           with sync: x -> stats, then          x, y?, dy (+ dy2) -> stats, dw[0], dw[1], then
 *           stats, x, … -> y                      stats, x, … -> dx, dx2?
 *  RELU     x -> y                                y, dy (+ dy2) -> dx
 *  ACT      x -> y                                x or y, dy -> dx
 *  EXPR     x, x2?, x3?, w[0] [as x2], w[1] [as   x, x2?, x3?, dy (+ dy2), w -> dx, dx2, dx3 (each
 *           x3] -> y                              may be NULL), dw[0], dw[1]
 *  POOL     x -> y                                dy (+ dy2), saved -> dx
 *  CONV_POOL x, w[0], w[1] as CONV -> y           x, y?, dy, w, saved? -> dx, dw[0], dw[1]
 *  ADD      x, x2 -> y                            with relu: y, dy (+ dy2) -> dx (of both)
 *  CONCAT   x, x2 -> y                            dy (+ dy2) -> dx, dx2 (either may be NULL)
 *  DROPOUT  x -> y                                dy -> dx
 *  RANDOM   -> y                                  -; the descriptor's x is as y
 *  LNORM    x, w[0] weight, w[1] bias (not with   x, dy (dx_add), w -> dx, dw[0], dw[1] (NULL: a
 *           rms) -> y                             constant)
 *  GNORM    x, w[0] weight, w[1] bias (affine)    x, dy (+ dy2), w -> dx, dw[0], dw[1]
 *           -> y
 *  LSTM     x [N,T,F], w[0] weight_ih [4H,F],     x, y, dy, w, saved -> dx, dw[0..3]
 *           w[1] weight_hh [4H,H], w[2] bias_ih,
 *           w[3] bias_hh -> y [N,T,H]
 *  GRU      as LSTM, with 3H rows of r, z, n     as LSTM
 *  ATTENTION x [N,T,D], x2?, w[0] in_proj_weight  x, dy, w, saved -> dx, dw[0..3]
 *           [3D,D], w[1] in_proj_bias, w[2]
 *           out_proj.weight, w[3] out_proj.bias
 *           -> y [N,T,D]
 *  SDPA     x [..,T,d], x2 [..,S,d], x3 [..,S,e]  x, x2, x3, y, dy -> dx, dx2, dx3 (each may be
 *           -> y [..,T,e]                         NULL)
 *           with heads: x q [N,T,H*d],
 *           x2 k [N,S,K*d], x3 v [N,S,K*e];
 *           or x q|k|v [N,T,(H+2K)*d], x2 mask?;
 *           or x q, x2 k|v [N,S,2K*d], x3 mask?;
 *           cached: position -> y [N,T,H*e]
 *  TOKENS   x [N,D,H,W], w[0] class_token [D],    dy -> dx, dw[0], dw[1]
 *           w[1] pos_embedding [1+HW,D] -> y
 *  SELECT   x [N,T,D] -> y [N,D]                  dy -> dx (zero elsewhere)
 *  CACHE    x [N,T,F], position -> y [N,S,F], of  -
 *           which it writes the rows position + 0
 *           … T - 1 that exist; others stay
 *  STRIDED  x -> y                                dy -> dx
 *  ROWS     x indices, w[0] or x2 [rows, …] -> y  x, dy -> dw[0] or dx2 (zero elsewhere)
 *  POSITION x [N,T,…], position? -> y [N,T] = position + t, less x if `relative`    -
 *  ROPE     x [N,T,F], x2? places [N,T],          dy, saved -> dx
 *           position? -> y
 *  OPERAND  w[0] [as y] -> y                     dy -> dw[0]; the descriptor's x is as y
 *  MATMUL   x [.., m,k], x2 [.., k,n] -> y        x, x2, dy -> dx, dx2 (either may be NULL)
 *           [.., m,n]; each x may be transposed
 *  SOFTMAX  x -> y                                y, dy -> dx
 *  REDUCE   x -> y, which has x's other dims;     dy (x, y) -> dx
 *           a reduced dim is 1, or left out
 *  UPSAMPLE x -> y                                dy -> dx
 *  REORDER  x -> y                                dy -> dx
 *           x CT_U8: x, affine -> y = a[c] x + b[c], rounded to float32 twice  -
 *  FAKE_QUANT x, w[0] range [2] -> y              x, dy -> dx
 *           training: first updates w[0] with x
 *  LOSS     x [N,K], labels or targets -> loss    x, … -> dx = scale * d(sum of losses)/dx
 *           over classes: x [N,K], [N,K,…] or
 *           [N,…,K] (classes_last)
 *  HEAD_LOSS x [N,…,D], w[0] [K,D], w[1] bias,   x, w, … -> dx = scale * d(sum of losses)/dx,
 *           labels -> loss; the descriptor's y    likewise dw[0], dw[1]
 *           [N,…,K] is the logits' shape; or of a 1x1 convolution x [N,D,…], y [N,K,…]
 *  GRADSTAT dy gradient, count -> stat            -
 *  MEASURE  w[0] weights, dy gradient, state -> norms   -
 *  UPDATE   w[0] weights, dy gradient, state, stat?, norms?  -
 *           -> w[0], state, y: the weights in y's type, if it is a reduced one
 *
 * int8 (`q`): an op takes CT_U8 activations and returns CT_U8 or float32 (CONV, LINEAR, POOL,
 * CONCAT, REORDER).  Its weights are quantized as in ct_int8.h, sums are exact, and the result is
 * rounded once.  Max pooling, SELECT, and a REORDER between CT_U8 tensors keep the scale and zero
 * point of x.  REORDER from float32 to CT_U8 quantizes, the reverse dequantizes.  With `dynamic` x
 * is quantized with the range of each batch (the hidden state of an LSTM is not).
 *
 * The `relu` of CONV and LINEAR applies to the forward pass only: their backward pass takes dy as
 * the gradient before the ReLU (the plan runs a RELU backward first).  BNORM, POOL and ADD with
 * `relu` take dy as the gradient of their output and mask it themselves. */
typedef struct ct_op_desc {
  ct_op_kind_t kind;
  int passes;   /**< CT_FWD | ...: the passes to prepare */
  int training; /**< BNORM: uses batch statistics and updates the running ones (0: uses the running
                     ones; constants in backward); DROPOUT: drops; FAKE_QUANT: updates the range */
  ct_shape_t x; /**< input, with its layout */
  ct_shape_t y; /**< output; the op chooses its layout (ct_op_info_t), except for REORDER */
  ct_shape_t x2, x3; /**< other inputs, of kinds with CT_KIND_SHAPES; else ndim is 0 */
  int64_t within;    /**< BNORM: x, dx and dx_add, CONCAT: y, dy and dy2 are the first channels of
                       tensors with so many channels; 0: they are whole tensors */
  struct {
    ct_quant_params_t x, x2, y; /**< scales of CT_U8 tensors (ct_int8.h); scale 0: raw bytes */
    int dynamic; /**< LINEAR, LSTM with float32 tensors: int8 GEMMs, quantized with the range of
                      each batch */
  } q;
  union {
    ct_op_conv_t conv; /**< CONVT: of the convolution from y to x, and the bias of y; CONVOLVE:
                            `bias` means an x3; both: no ReLU, no addition */
    struct {
      int bias, relu;
      int add;   /**< 1: adds x2 (shape of y) before the ReLU; not for int8. Backward computes no
                    gradient of x2: it is dy */
      int plain; /**< 1: the weight has the plain layout, because ops of other kinds use it too */
    } linear;
    struct {
      double eps, momentum; /**< running = (1 - momentum) * running + momentum * batch */
      int relu;             /**< 0: none; 1: ReLU; CT_RELU6: ReLU6 */
      int add;              /**< 1: x2 is added before the ReLU */
      int sync;             /**< training: statistics over a group of ranks (SyncBN) */
      int untracked;        /**< 1: the plan sets `training` in evaluation too: the running
                                 statistics are constants */
    } bnorm;
    struct {
      ct_act_t kind;
      double alpha; /**< CT_ALPHA_… */
    } act;
    ct_expr_t expr;
    ct_op_pool_t pool;
    ct_op_conv_pool_t conv_pool;
    struct {
      int relu;
    } add;
    struct {
      int along;  /**< 1 + the dim; 0: the channels, or of sequences (3 dims) the features */
      int placed; /**< 1: x is in its place in y already: x and y, dx and dy are parts of the same
                       kind of tensor, and dx may be dy */
    } concat;
    struct {
      double p;       /**< probability to drop */
      uint32_t layer; /**< layer number, which selects the stream of random numbers */
      int dim, rows;  /**< a sample is `rows` consecutive indices of dim `dim`, and all of the other
                           dims; rows 0: 1 */
      int whole;      /**< 1: drops whole rows of dim 0; 2: all of them or none; dim is 0 */
      int unscaled;   /**< 1: x * mask, not divided by 1 - p */
    } dropout;
    struct {
      ct_random_t kind;
      double p;       /**< BERNOULLI: probability of 1 */
      uint32_t layer; /**< as in dropout */
      int rows;       /**< as in dropout; 0: 1 */
    } random;
    struct {
      double eps;
      int dims; /**< over the last dims; 0: over one */
      int rms;  /**< 1: divides by the root mean square alone (Zhang and Sennrich 2019): no mean is
                     subtracted, and there is no bias */
    } lnorm;
    struct {
      double eps;
      int groups; /**< number of groups of consecutive channels, of equal size */
      int affine; /**< each channel has a weight and a bias */
    } gnorm;
    struct {
      int heads;
      int add; /**< 1: adds x2 (shape of y), as LINEAR does */
    } attention;
    struct {
      int causal;   /**< 1: query i meets the keys 0 … i only */
      double scale; /**< of the products of queries and keys */
      int heads;    /**< H; 0: the dims before the last two are the heads */
      int kv_heads; /**< K, each of which serves H / K consecutive heads; 0: H */
      int packed;   /**< 0: q, k, v in three inputs; 1: in one; 2: q, and k and v in one */
      ct_mask_t
          mask;   /**< its tensor is the last input, behind packed keys and values.  A query that
                           meets no key gives 0 */
      int cached; /**< 1: query i of sample n is at place position[n] + i (ct_op_args_t); needs
                           `causal` */
    } sdpa;       /**< ct_sdpa.h */
    struct {
      int index; /**< from 0; -1: the last */
    } select;
    struct {
      /** The dims of x and y that the map is about, if they are not those of the shapes; in any
       * case the same elements in the same order.  view_dims 0: as the shape */
      int x_view_dims, y_view_dims;
      int64_t x_view[CT_MAX_DIMS], y_view[CT_MAX_DIMS];
      int from[CT_MAX_DIMS];     /**< per dim of y: the dim of x that it reads; -1: none */
      int64_t step[CT_MAX_DIMS]; /**< per dim of y */
      int64_t start[CT_MAX_DIMS]; /**< per dim of x: y at (i0, i1, …) reads the index start[s] + the
                                       sum of step[d] * i_d over the dims d with from[d] == s */
      int edge[CT_MAX_DIMS];      /**< ct_edge_t, per dim of x: indices outside of it */
      double value;               /**< CT_EDGE_VALUE: the constant */
    } strided;
    struct {
      int a_turned, b_turned; /**< 1: x is [.., k,m]; x2 is [.., n,k] */
    } matmul;
    struct {
      int dim, log; /**< log 1: the logarithm of the softmax */
    } softmax;
    struct {
      ct_reduction_t mode;
      unsigned dims;     /**< bit i: over dim i of x */
      double p;          /**< NORM: its order, above 0; infinity: the maximum norm */
      double correction; /**< VAR, STD: the divisor is the number of values less this */
    } reduce;
    struct {
      int64_t rows; /**< of the table */
      int padding;  /**< 1 + the row that gets no gradient; 0: none */
    } rows;
    struct {
      int relative; /**< 1: x holds the place of the first element of each element's document */
    } position;
    ct_rope_t rope; /**< without x2 the places are ct_op_args_t.position + t */
    struct {
      ct_resize_t mode;
      int align_corners; /**< LINEAR, BICUBIC: as in PyTorch */
      double scale[3];   /**< per dim, the factor that maps coordinates; 0: that of the sizes */
    } upsample;
    struct {
      int reverse; /**< 1: from the last step to the first */
      int no_bias; /**< 1: without bias_ih and bias_hh */
    } rnn;         /**< LSTM, GRU */
    ct_loss_spec_t loss;
    struct {
      ct_loss_spec_t loss; /**< CROSS_ENTROPY without mixed labels; classes_last 0: of pixels */
      int bias;
    } head_loss;
    struct {
      double p; /**< order of the norm; infinity: the maximum norm */
    } gradstat;
    struct {
      int rule;     /**< ct_rule_t, ct_rules.h; also used by MEASURE */
      int segments; /**< maximum number of segments of a run (ct_segment_t); 0: none */
    } update;
  } u;
} ct_op_desc_t;

/** Returns 1 if the op's activations, weights or both are int8; int8 ops are forward only. */
static inline int ct_op_is_int8(const ct_op_desc_t *d)
{
  return d->q.dynamic || (d->x.dtype == CT_U8 && d->q.x.scale > 0) ||
         (d->y.dtype == CT_U8 && d->q.y.scale > 0);
}
/** Returns 1 for the kinds that compute a loss: they have no output. */
static inline int ct_op_is_loss(ct_op_kind_t kind)
{
  return kind == CT_OP_LOSS || kind == CT_OP_HEAD_LOSS;
}
/** Returns 1 if a backward pass is among the passes. */
static inline int ct_op_goes_back(const ct_op_desc_t *d)
{
  return (d->passes & (CT_BWD_DATA | CT_BWD_PARAM | CT_BWD_STATS)) != 0;
}
/** Zeroes the whole descriptor, padding included, and sets kind, passes = CT_FWD and the shapes. */
void ct_op_desc_init(ct_op_desc_t *d, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y);
/** Sets the shapes of further inputs of a kind with CT_KIND_SHAPES; NULL: none. */
void ct_op_desc_more(ct_op_desc_t *d, const ct_shape_t *x2, const ct_shape_t *x3);
/** Returns a bit set of the inputs that hold indices or flags: whole numbers that are float32 in
 * any case and have no gradient. */
unsigned ct_op_indices(const ct_op_desc_t *d);
/** Makes the op compute in type \a t: sets the types of its activations.  Indices stay float32. */
void ct_op_desc_type(ct_op_desc_t *d, ct_dtype_t t);
/** ct_op_desc_init() for GRADSTAT (uses p), MEASURE and UPDATE (use rule) over \a count
 * elements. */
void ct_op_desc_flat(ct_op_desc_t *d, ct_op_kind_t kind, int64_t count, int rule, double p);
/** Returns 1 if the op's last GEMM adds x2 (LINEAR and ATTENTION with `add`). Then the gradient of
 * x2 is dy, and backward does not compute it. */
int ct_op_adds_second(const ct_op_desc_t *d);
/** Returns the number of elements of a row of ROWS's table. */
int64_t ct_op_row_width(const ct_op_desc_t *d);
/** Returns the shape of x2.  CT_KIND_SHAPES: that of the descriptor; CONCAT: the shape of x, but
 * with what y has in addition along the dim of concatenation; CONV, LINEAR: the shape of y; other
 * kinds: the shape of x. */
ct_shape_t ct_op_second(const ct_op_desc_t *d);
/** Pure.  Checks kind, passes, types, ranges, and the shapes of x and y.  Returns 1 if the
 * descriptor is valid, else 0 with the reason in why.  Backends call this before they test their
 * own limits. */
int ct_op_check(const ct_op_desc_t *d, char why[128]);
/** Returns a bit set of CT_USES_X and CT_USES_Y: the tensors that the formulas of the requested
 * backward passes need.  A backend may need other tensors (ct_op_info_t.bwd_uses). */
int ct_op_uses(const ct_op_desc_t *d);
/** Returns the convolution whose backward pass to its data is the CONVT \a d, without a bias: from
 * y to x, with the passes that \a d needs of it.  Its weight is that of \a d. */
ct_op_desc_t ct_op_turned(const ct_op_desc_t *d);
/** Returns the passes of ct_op_turned() that the passes \a pass of a CONVT run. */
int ct_op_turned_pass(int pass);
/** Returns the op \a part of a CONV_POOL, all plain, with the passes that \a d needs of it:
 * CT_OP_CONV (with conv.relu), CT_OP_ACT (of kind RELU if it is conv.relu, for the backward pass),
 * or CT_OP_POOL. */
ct_op_desc_t ct_conv_pool_part(const ct_op_desc_t *d, ct_op_kind_t part);
/** Return NULL if the CONV, POOL or CONV_POOL is valid, else the reason. */
const char *ct_conv_check(const ct_op_desc_t *d);
const char *ct_pool_check(const ct_op_desc_t *d);
const char *ct_conv_pool_check(const ct_op_desc_t *d);
/** Returns 1 if backward of a CONV_POOL computes the convolution again: its activation's derivative
 * needs more than the maxima. */
int ct_conv_pool_again(const ct_op_desc_t *d);
/** Makes an op over sequences N x C x L the same op over images N x C x 1 x L: backends have
 * windows over two and three dims only.  For kinds with a window, and those that treat all pixels
 * of a channel alike. */
void ct_op_heighten(ct_op_desc_t *d);
#define CT_OP_INPUTS 3 /**< maximum number of inputs of an op */
#define CT_OP_PARAMS 4 /**< maximum number of trained parameters of an op */
/** Returns the number of elements of trained parameter \a param, 0 … CT_OP_PARAMS - 1; 0: the op
 * does not have this parameter. */
int64_t ct_op_param_count(const ct_op_desc_t *d, int param);

/** Properties of an activation function: its row of CT_ACT_LIST. */
typedef struct ct_act_facts {
  const char *name;
  int uses, alpha, keeps_zero;
  double flops;
} ct_act_facts_t;
/** Returns the properties of a function; the name for an invalid kind is "unknown". */
const ct_act_facts_t *ct_act_facts_of(ct_act_t kind);
/** Returns the name of a mode of REDUCE; "unknown" for an invalid one. */
const char *ct_reduction_name(ct_reduction_t mode);
/** Returns the number of elements that LNORM normalises together. */
int64_t ct_op_normalised(const ct_op_desc_t *d);
/** Returns the samples of a DROPOUT's batch. */
int64_t ct_op_dropped_samples(const ct_op_desc_t *d);
/** Returns how many elements of x a REDUCE makes one of. */
int64_t ct_op_reduced(const ct_op_desc_t *d);
/** Returns dim \a i, counted from the last (0), of a shape with dims of 1 added in front. */
static inline int64_t ct_dim_back(const ct_shape_t *s, int i)
{
  return i < s->ndim ? s->dim[s->ndim - 1 - i] : 1;
}
/** Returns the name of a distribution; "unknown" for an invalid one. */
const char *ct_random_name(ct_random_t kind);

/** Returns the resize of UPSAMPLE \a d along spatial dim \a i. */
ct_resize_dim_t ct_op_resize_dim(const ct_op_desc_t *d, int i);
/** Returns the name of a mode of UPSAMPLE; "unknown" for an invalid one. */
const char *ct_resize_name(ct_resize_t mode);

/** Local.  Checks the passes of a run.  CT_ERR_ARG: \a pass is empty or was not prepared. */
int ct_op_check_pass(const ct_op_desc_t *d, int pass);
/** Returns the LOSS of the logits of a HEAD_LOSS, with the classes last; of a LOSS, itself. */
ct_op_desc_t ct_op_loss_of(const ct_op_desc_t *d);
/** Returns the number of classes of a LOSS of classes; else that of the outputs of a sample. */
int64_t ct_op_classes(const ct_op_desc_t *d);
/** Returns the number of labels that a LOSS has per sample: CROSS_ENTROPY, DICE: the number of
 * pixels; else 1. */
int64_t ct_op_pixels(const ct_op_desc_t *d);
/** Returns the number of place weights of a LOSS: of the pixels of a sample if it is of classes,
 * else of its outputs. */
int64_t ct_op_places(const ct_op_desc_t *d);
/** Returns the factor of an output's loss in the sum over its sample, for CT_POINT_LOSS_LIST. */
double ct_op_loss_share(const ct_op_desc_t *d);
/** Properties of a kind of op: its row of CT_OP_LIST. */
typedef struct ct_op_facts {
  const char *name; /**< "conv", "bnorm", … */
  int is;           /**< CT_KIND_… */
  int params;       /**< maximum number of trained parameters */
  int data_uses, param_uses;
  int flops, data_flops, param_flops; /**< per element of x */
} ct_op_facts_t;
/** Returns the properties of a kind; the name for an invalid kind is "unknown". */
const ct_op_facts_t *ct_op_facts_of(ct_op_kind_t kind);
/** Returns the name of a kind. */
const char *ct_op_name(ct_op_kind_t kind);
/** Returns 1 if the kind has the property \a bit (CT_KIND_…). */
static inline int ct_op_is(ct_op_kind_t kind, int bit)
{
  return (ct_op_facts_of(kind)->is & bit) != 0;
}
/** Writes the op as text, "conv 16x64x56x56 -> 16x64x56x56 k3x3 s1 p1 relu", into buf; returns
 * buf. */
const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap);
/** Returns the name of a set of passes: "forward", "backward", "backward data", "backward weights",
 * or "sums" for the STATS passes of batchnorm. */
const char *ct_op_pass_text(int pass);
/** Returns the FLOP of one pass (a multiply-add is two), counted for the direct algorithm. */
double ct_op_flops(const ct_op_desc_t *d, int pass);
/** Returns the number of outputs of a sliding window along one dim:
 * floor((in + 2 * pad - dilate * (kernel - 1) - 1) / stride) + 1. */
int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate);
/** Returns the number of outputs of pooling along a dim.  \a ceil: rounded up, but the last window
 * begins inside the input or the padding before it, as in PyTorch. */
int64_t ct_op_pool_out(int64_t in, int kernel, int stride, int pad, int dilate, int ceil);
/** Returns 1 if a pooling op averages, 0 if it takes the maximum. */
static inline int ct_op_averages(const ct_op_desc_t *d)
{
  return d->u.pool.average || d->u.pool.global;
}
/** Returns 1 if the windows of a pooling op have a kernel, stride and padding. */
static inline int ct_op_has_kernel(const ct_op_desc_t *d)
{
  return !d->u.pool.global && !d->u.pool.adaptive;
}
/** Returns the convolution that a CONVOLVE \a d computes, whose weight and bias are parameters. */
ct_op_desc_t ct_op_with_params(const ct_op_desc_t *d);
/** Returns 1 if input \a k, from 0, of a kind with CT_KIND_SHAPES takes the layout that the op
 * wants for its first input; other inputs are plain. */
int ct_op_takes_layout(const ct_op_desc_t *d, int k);
#endif
