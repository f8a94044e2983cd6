/** \file layer_common.h  What several layer kinds share.  For the files of this folder only. */
#ifndef CT_LAYER_COMMON_H
#define CT_LAYER_COMMON_H
#include "model/ct_layer.h"

/** Option rows of a kind that has none. */
extern const ct_opt_t ct__no_options[];

/** CT_OK if the shape is N x C x H x W (\a space 2) or N x C x D x H x W (3), else CT_ERR_SHAPE. */
int ct__want_space(const ct_shape_t *in, int space);
/** CT_OK if it is one of the two. */
int ct__want_channels(const ct_shape_t *in);

/** CT_OK if the shape is N x T x features, else CT_ERR_SHAPE. */
int ct__want_sequence(const ct_shape_t *in);

/** Geometry of a sliding window, {rows, columns} or {depth, rows, columns}. */
typedef struct ct__window {
  int space; /**< 2 or 3 */
  int64_t kernel[3], stride[3], padding[3], dilation[3];
} ct__window_t;

/** Shape of \a in seen through a window, with \a channels channels.  CT_ERR_SHAPE if it does not
 * fit. */
int ct__window_infer(const ct__window_t *w, const ct_shape_t *in, int64_t channels,
                     ct_shape_t *out);
/** The window of a pooling layer: stride 0 means as the kernel; not dilated. */
ct__window_t ct__pool_window(int space, const int64_t kernel[3], const int64_t stride[3],
                             const int64_t padding[3]);
/** `infer` and `lower` (of a max-pool) for that window.  As PyTorch, refuses padding of more than
 * half the kernel: windows would lie wholly in the padding. */
int ct__pool_infer(const ct__window_t *w, const ct_shape_t *in, ct_shape_t *out);
void ct__pool_lower(const ct__window_t *w, const ct_shape_t *in, const ct_shape_t *out,
                    ct_op_desc_t *d);
/** Options to the ints of a descriptor; the option tables bound the values. */
void ct__window_ints(int space, const int64_t from[3], int to[3]);

/** `infer` of kinds that keep the shape. */
int ct__same_shape(const void *opts, const ct_shape_t *in, ct_shape_t *out);
/** `params` of kinds without any. */
int ct__no_params(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS]);
/** PyTorch's default for Conv2d and Linear: uniform in +-1 / sqrt(fan_in), weight and bias alike
 * (what kaiming_uniform_(a = sqrt(5)) comes to). */
ct_param_spec_t ct__uniform_param(const char *suffix, ct_shape_t shape, int64_t fan_in);
/** A matrix with torch.nn.init.xavier_uniform_ (Glorot and Bengio, 2010). */
ct_param_spec_t ct__xavier_param(const char *suffix, int64_t out, int64_t in);

#endif
