/** \file layer_usual.h Shape checks and initializers shared by the layer kinds. */
#ifndef CT_LAYER_USUAL_H
#define CT_LAYER_USUAL_H
#include "model/ct_layer.h"

/** The option rows of a kind without options. */
extern const ct_opt_t ct__layer_no_options[];

/** Returns CT_OK if the shape is N x C x L (\a space 1), N x C x H x W (2) or N x C x D x H x W
 * (3), else CT_ERR_SHAPE. */
int ct__layer_want_space(const ct_shape_t *in, int space);
/** Returns CT_OK if the shape is N x C x L, N x C x H x W or N x C x D x H x W, else
 * CT_ERR_SHAPE. */
int ct__layer_want_channels(const ct_shape_t *in);

/** Returns CT_OK if the shape is N x T x features, else CT_ERR_SHAPE. */
int ct__layer_want_sequence(const ct_shape_t *in);

/** Writes a shape of a graph, "12Nx3x7": N is the batch; returns buf. */
const char *ct__layer_shape_text(const ct_shape_t *s, char *buf, size_t cap);
/** Computes the shape to which \a n inputs are broadcast, as in PyTorch.  CT_ERR_SHAPE: they do not
 * fit, or only for some batch sizes. */
int ct__layer_broadcast(const ct_shape_t *in, int n, ct_shape_t *out);
/** Reads the number of an option that is a text, because it may be infinite or missing: "1e-3",
 * "-inf".  CT_ERR_SHAPE names the option. */
int ct__layer_number(const char *key, const char *text, double *out);

/** Returns a parameter with PyTorch's default initializer for the weight and bias of Conv2d and
 * Linear: uniform in ±1 / sqrt(fan_in), which equals kaiming_uniform_(a = sqrt(5)). */
ct_param_spec_t ct__layer_uniform(const char *suffix, ct_shape_t shape, int64_t fan_in);
/** Returns a matrix initialized as by torch.nn.init.xavier_uniform_ (Glorot and Bengio, 2010). */
ct_param_spec_t ct__layer_xavier(const char *suffix, int64_t out, int64_t in);

#endif
