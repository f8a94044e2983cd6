/** \file ct_observe.h  Where a model has numbers of eight bits, and what they are.  Layer 2.
 *
 * Pure and local.  An observed graph is a model with a layer behind each place whose numbers will
 * be in eight bits, which rounds them so (CT_OP_FAKE_QUANT).  Its name is that of the folded
 * graph's layer (ct_fold.h) with ".quant" behind it, "input.quant" at the network's input; it has
 * one buffer, the range of the numbers there.  While the range is nothing, numbers pass as they
 * are: so an observed graph serves for training with quantization, for calibration, and as the
 * float32 model of what eight bits compute.
 *
 * A place is the output of a convolution, linear layer, ReLU, ReLU6, addition, concatenation or
 * average, if a layer that computes in eight bits reads it; and whatever a convolution or linear
 * layer reads.  Before a ReLU that is the only reader there is none, nor where numbers are only
 * chosen (maximum, flatten, one of a sequence): they have those of the place before. */
#ifndef CT_OBSERVE_H
#define CT_OBSERVE_H
#include "model/ct_fold.h"
#include "model/ct_quant.h"

/** The observed graph of a model, folded or not. */
typedef struct ct_observed {
  const ct_graph_t *from; /**< borrowed */
  ct_fold_t fold;         /**< of it */
  ct_graph_t *graph;      /**< owned */
  int *range; /**< [fold.graph->layers] the observed graph's parameter that is the range of the
                  output of each layer; -1: none; several layers may share one */
  int input;  /**< the same of the network's input */
} ct_observed_t;

/** Local.  *out borrows \a g; cleared by ct_observed_clear(); zeroed on failure. */
int ct_observed_make(const ct_graph_t *g, ct_observed_t *out);
/** A zeroed one is fine. */
void ct_observed_clear(ct_observed_t *o);
/** 1 if a parameter is a range, by its layer. */
int ct_observed_is_range(const ct_graph_t *g, int param);
/** Local.  The numbers of eight bits of the folded graph o->fold.graph, from the values of all
 * parameters of the observed one (only ranges are read). */
int ct_observed_quant(const ct_observed_t *o, const float *const value[], ct_quant_t *out);

/** 1 if the weights of a parameter are int8 in a quantized model: of convolutions, linear
 * layers, LSTMs and attention.  *channels: how many scales they have. */
int ct_quant_is_weight(const ct_graph_t *g, int param, int64_t *channels);

#endif
