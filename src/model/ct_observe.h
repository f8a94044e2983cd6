/** \file ct_observe.h  Inserts fake-quantization layers where an int8 model has int8 activations.
 * Layer 2.
 *
 * Pure and local.  An observed graph is a model with a layer CT_OP_FAKE_QUANT at each observation
 * point.  The layer is named after the layer of the folded graph (ct_fold.h) with the suffix
 * ".quant"; "input.quant" for the network's input.  Its one buffer is the range of the values.
 * While the range is empty, values pass unchanged.  So one graph serves quantization-aware
 * training, calibration, and as the float32 model of the int8 computation.
 *
 * An observation point is the output of a convolution, linear layer, ReLU, ReLU6, addition,
 * concatenation or average pooling that an int8 layer reads, and each input of a convolution or
 * linear layer.  There is none before a ReLU that is the only reader.  Max pooling, flatten and
 * select have none either: their values keep the range of their input. */
#ifndef CT_OBSERVE_H
#define CT_OBSERVE_H
#include "model/ct_fold.h"
#include "model/ct_quant.h"

/** The observed graph of a model, folded or not. */
typedef struct ct_observed {
  const ct_graph_t *from; /**< borrowed */
  ct_fold_t fold;         /**< the folded graph of `from` */
  ct_graph_t *graph;      /**< owned */
  int *range; /**< [fold.graph->layers] the parameter of the observed graph that holds the range of
                   the layer's output; -1: none; several layers may share one */
  int input;  /**< the same for the network's input */
} ct_observed_t;

/** Local.  *out borrows \a g and is freed by ct_observed_clear(); it is zeroed on failure. */
int ct_observed_make(const ct_graph_t *g, ct_observed_t *out);
/** Accepts a zeroed struct. */
void ct_observed_clear(ct_observed_t *o);
/** 1 if a parameter is the range of a fake-quantization layer. */
int ct_observed_is_range(const ct_graph_t *g, int param);
/** Local.  The scales and zero points of the folded graph o->fold.graph, from the values of all
 * parameters of the observed graph (only the ranges are read). */
int ct_observed_quant(const ct_observed_t *o, const float *const value[], ct_quant_t *out);

/** 1 if a quantized model stores this parameter as int8: weights of convolutions, linear layers,
 * LSTMs and attention.  *channels: number of their scales. */
int ct_quant_is_weight(const ct_graph_t *g, int param, int64_t *channels);

#endif
