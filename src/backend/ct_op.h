/** \file ct_op.h  One piece of arithmetic as plain data.  Layer 1.
 *
 * A descriptor has no pointers and no handles: after ct_op_desc_init() zeroed it, it can be compared
 * with memcmp, hashed into the plan hash that all ranks agree on, printed, and made up by a test. */
#ifndef CT_OP_H
#define CT_OP_H
#include "base/ct_types.h"

typedef enum {
  CT_OP_CONV,    /**< 2-D cross-correlation, optional bias, forward ReLU */
  CT_OP_LINEAR,  /**< y = x w^T + b; forward ReLU */
  CT_OP_BNORM,   /**< batch normalisation over N and space, then + x2, then ReLU (both optional) */
  CT_OP_RELU,    /**< max(x, 0) */
  CT_OP_POOL,    /**< max or average over windows, or global average; ReLU optional (max only) */
  CT_OP_ADD,     /**< x + x2, then ReLU (optional) */
  CT_OP_DROPOUT, /**< x * mask / (1 - p) */
  CT_OP_REORDER, /**< x in another layout, or with other dims (flatten) */
  CT_OP_XENT,    /**< softmax cross-entropy of logits against labels, and top-1, top-5 */
  CT_OP_UPDATE,  /**< one optimizer rule over flat ranges */
  CT_OP_KINDS
} ct_op_kind_t;

/** Passes, a bit set.  A backward run with both bits does both in the order that is fastest. */
enum { CT_FWD = 1, CT_BWD_DATA = 2, CT_BWD_PARAM = 4 };

/** What a kind computes, in PyTorch's words, and which arguments (ct_op_args_t) it takes:
 *
 *  kind     forward                               backward
 *  CONV     x, w[0] OIHW, w[1] bias -> y          x, dy, w -> dx, dw[0], dw[1]
 *  LINEAR   x [N,in], w[0] [out,in], w[1] -> y    x, dy, w -> dx, dw[0], dw[1]
 *  BNORM    x, x2?, w[0] weight, w[1] bias,       x, y?, dy (+ dy2) -> dx, dx2?, dw[0], dw[1]
 *           w[2] running_mean, w[3] running_var
 *  RELU     x -> y                                y, dy (+ dy2) -> dx
 *  POOL     x -> y                                x, y, dy -> dx
 *  ADD      x, x2 -> y                            with relu: y, dy (+ dy2) -> dx (both inputs' gradient)
 *  DROPOUT  x -> y                                dy -> dx
 *  REORDER  x -> y                                dy -> dx
 *  XENT     x [N,K], labels -> result             x, labels -> dx = scale * (softmax - onehot)
 *  UPDATE   w[0] weights, dy gradient, state      -
 *
 * The `relu` of CONV and LINEAR acts in the forward pass only: their backward takes dy as the gradient
 * of the value before the ReLU (the plan puts a RELU backward in front).  BNORM, POOL and ADD with
 * `relu` take dy as the gradient of their output and mask it themselves. */
typedef struct ct_op_desc {
  ct_op_kind_t kind;
  int passes;   /**< CT_FWD | ... : what will be run; others need not be prepared */
  int training; /**< BNORM: batch statistics, updates running ones; DROPOUT: drops */
  ct_shape_t x; /**< input, with its layout */
  ct_shape_t y; /**< output; its layout is the op's choice (ct_op_info_t), but REORDER's is given */
  union {
    struct {
      int kernel[2], stride[2], pad[2], dilate[2]; /**< dilate 1 = dense, as PyTorch */
      int groups, bias, relu;
    } conv;
    struct {
      int bias, relu;
    } linear;
    struct {
      double eps, momentum; /**< running = (1 - momentum) * running + momentum * batch */
      int relu, add;        /**< add: x2 is summed in before the ReLU */
    } bnorm;
    struct {
      int kernel[2], stride[2], pad[2];
      int average;     /**< 0: max */
      int global;      /**< average over all of H x W; y is N x C x 1 x 1 */
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
      int rule; /**< ct_rule_t, ct_rules.h */
    } update;
  } u;
} ct_op_desc_t;

/** Zeroes the whole descriptor, padding included, and sets kind, passes = CT_FWD and the shapes. */
void ct_op_desc_init(ct_op_desc_t *d, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y);
/** "conv", "bnorm", … */
const char *ct_op_name(ct_op_kind_t kind);
/** "conv 16x64x56x56 -> 16x64x56x56 k3x3 s1 p1 relu" into buf (returned). */
const char *ct_op_text(const ct_op_desc_t *d, char *buf, size_t cap);
/** Floating-point operations of one pass (a multiply-add is two), by the direct algorithm. */
double ct_op_flops(const ct_op_desc_t *d, int pass);
/** Spatial output size of a window: floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1. */
int64_t ct_op_window_out(int64_t in, int kernel, int stride, int pad, int dilate);

#endif
