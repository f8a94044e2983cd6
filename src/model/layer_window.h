/** \file layer_window.h Window geometry of convolutions and pooling. */
#ifndef CT_LAYER_WINDOW_H
#define CT_LAYER_WINDOW_H
#include "model/ct_layer.h"

/** A sliding window; arrays are {steps}, {rows, columns} or {depth, rows, columns}. */
typedef struct ct__layer_window {
  int space; /**< number of dims, 1 to 3 */
  int ceil;  /**< pooling: ct_op_pool_out() */
  int64_t kernel[3], stride[3], padding[3], dilation[3];
} ct__layer_window_t;

/** Computes the output shape for input \a in, with \a channels channels.  CT_ERR_SHAPE: the window
 * is larger than the padded input. */
int ct__layer_window_infer(const ct__layer_window_t *w, const ct_shape_t *in, int64_t channels,
                           ct_shape_t *out);
/** The option rows of the initial values of a convolution. */
#define CT__LAYER_CONV_INIT(T)                                                               \
  CT_OPT_CHOICE(T, init, "default", "default|he_fan_out|he_fan_in|trunc_normal",             \
                "initial weights: PyTorch's default; normal (He et al. 2015) by fan-out or " \
                "fan-in; truncated normal with variance 1 / fan-in and zero bias"),          \
      CT_OPT_CHOICE(T, bias_init, "default", "default|zero",                                 \
                    "initial bias: PyTorch's default, or zero")
/** Sets the initial values of a weight and a bias by these options.  As in PyTorch, the fan-in
 * counts dim 1 of the weight and the window, the fan-out dim 0. */
void ct__layer_conv_init(int init, int bias_init, ct_param_spec_t spec[2]);
/** Converts option values to the ints of a descriptor; the option tables bound the values. */
void ct__layer_window_ints(int space, const int64_t from[3], int to[3]);

#endif
