/** \file ct_quant.h  Scales and zero points of the activations of a quantized model.  Layer 2.
 * Plain data.
 *
 * Each layer output of a folded graph (ct_fold.h) has a scale and zero point, whether or not the
 * plan fuses the layer later.  A plan uses them as follows.  A convolution or linear layer is int8
 * if its input and its output have a scale.  Layers that only select input values (max-pooling,
 * flatten, select, ReLU) keep the scale and zero point of their input.  Tensors without a scale are
 * float32, and the plan inserts conversions.  Weights have no entry: a plan takes them as float32
 * and quantizes them as in ct_int8.h. */
#ifndef CT_QUANT_H
#define CT_QUANT_H
#include "backend/ct_int8.h"
#include "model/ct_graph.h"

typedef struct ct_quant {
  int layers;              /**< number of layers of the folded graph */
  ct_quant_params_t input; /**< network's input; scale 0: not quantized */
  ct_quant_params_t *out;  /**< [layers] output of each layer; scale 0: not quantized */
  unsigned char *dynamic;  /**< [layers] 1: a linear layer or LSTM with int8 weights whose input is
                               quantized with the range of each batch; needs no scale */
} ct_quant_t;

/** Local.  Allocates *out with all scales 0: nothing is quantized.  Freed by ct_quant_clear(). */
int ct_quant_make(const ct_graph_t *g, ct_quant_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_quant_clear(ct_quant_t *q);

#endif
