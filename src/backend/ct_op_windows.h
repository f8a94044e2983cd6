/** \file ct_op_windows.h  Attributes of ops with windows: convolution, pooling, and both as one op.
 * Layer 1.  Each array has one value per spatial dim: 2 (H, W) or 3 (D, H, W). */
#ifndef CT_OP_WINDOWS_H
#define CT_OP_WINDOWS_H

/** Attributes of CONV, CONVT and CONVOLVE. */
typedef struct ct_op_conv {
  int kernel[3], stride[3], pad[3], dilate[3]; /**< dilate 1: not dilated */
  int groups, bias, relu, plain;               /**< plain: CONV: as that of LINEAR */
  int add; /**< 1, only for inference: adds x2 (shape and layout of y) before the ReLU */
} ct_op_conv_t;

/** Attributes of POOL. */
typedef struct ct_op_pool {
  int kernel[3], stride[3], pad[3];
  int gap[3];      /**< max: pixels between neighbouring taps, PyTorch's dilation - 1 */
  int ceil;        /**< the number of windows is rounded up: ct_op_pool_out() */
  int average;     /**< 0: max */
  int global;      /**< average over all pixels; y is N x C x 1 x 1 */
  int adaptive;    /**< output i of n covers the inputs floor(i in / n) to ceil((i + 1) in / n), as
                        AdaptiveAvgPool2d; without kernel, stride, pad */
  int divisor;     /**< average over windows with a kernel: what sums are divided by; 0: the number
                        of elements */
  int include_pad; /**< averages divide by the size of the whole window (PyTorch's
                        count_include_pad) */
  int relu;        /**< max only */
} ct_op_pool_t;

/** Attributes of CONV_POOL.  A *slab* is a range of rows along the first spatial dim: depth of
 * volumes, height of images (ct_slabs.h). */
typedef struct ct_op_conv_pool {
  ct_op_conv_t conv; /**< without `add` */
  ct_op_pool_t
      pool;     /**< with a kernel; along the first spatial dim without padding, and the windows
                          end inside the convolution's output */
  int act;      /**< activation between the two: 1 + ct_act_t; 0: at most the ReLUs of both */
  double alpha; /**< of the activation */
  int rows;     /**< of y per slab; they change speed and memory alone */
} ct_op_conv_pool_t;

#endif
