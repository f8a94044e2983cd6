/** \file ct_observe.h  Inserts fake-quantization layers where an int8 model has int8 activations.
 * Layer 2.
 *
 * Pure and local.  An observed graph is a model with a layer CT_OP_FAKE_QUANT at each observation
 * point.  The inserted layer has the name of the layer of the folded graph (ct_fold.h) whose output
 * it observes, with the suffix ".quant"; for the network's input it is "input.quant".  Its only
 * buffer is the range of the values.
 * While the range is empty, values pass unchanged.  So one graph serves quantization-aware
 * training, calibration, and as the float32 model of the int8 computation.
 *
 * An observation point is the output of a convolution, linear layer, ReLU, ReLU6, addition,
 * concatenation or average pooling that an int8 layer reads, and each input of a convolution or
 * linear layer.  An output whose only reader is a ReLU is not observed.  The outputs of max
 * pooling, flatten and select are not observed either: their values keep the range of the input. */
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
  int input;  /**< the parameter that holds the range of the network's input; -1: none */
} ct_observed_t;

/** Local.  Makes the observed graph.  *out borrows \a g and is freed by ct_observed_clear(); it is
 * zeroed on failure. */
int ct_observed_make(const ct_graph_t *g, ct_observed_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_observed_clear(ct_observed_t *o);
/** Returns 1 if a parameter is the range of a fake-quantization layer. */
int ct_observed_is_range(const ct_graph_t *g, int param);
/** Local.  Computes the scales and zero points of the folded graph o->fold.graph.  value: all
 * parameters of the observed graph, of which only the ranges are read. */
int ct_observed_quant(const ct_observed_t *o, const float *const value[], ct_quant_t *out);

/** Returns 1 if a quantized model stores this parameter as int8: weights of convolutions, linear
 * layers, LSTMs and attention.  *channels: number of scales of the parameter. */
int ct_quant_is_weight(const ct_graph_t *g, int param, int64_t *channels);

#endif
