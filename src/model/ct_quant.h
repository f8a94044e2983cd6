/** \file ct_quant.h  The numbers with which a model computes in eight bits.  Layer 2.  Plain data.
 *
 * They are of a folded graph (ct_fold.h): a pair for each layer's output, whatever is fused later.
 * What a plan does with them: a convolution or linear layer computes in eight bits if its input and
 * its output have a pair; layers that only choose among their inputs' numbers (max-pooling,
 * flatten, select, ReLU) give them with the pair of their input; what has no pair is float32, and
 * values are converted where it changes.  Weights need nothing here: ct_int8.h says how they are
 * int8, and a plan takes them as float32 like any. */
#ifndef CT_QUANT_H
#define CT_QUANT_H
#include "backend/ct_int8.h"
#include "model/ct_graph.h"

typedef struct ct_quant {
  int layers;             /**< of the folded graph */
  ct_quant_pair_t input;  /**< of the network's input; scale 0: none */
  ct_quant_pair_t *out;   /**< [layers] of each layer's output; scale 0: none */
  unsigned char *dynamic; /**< [layers] 1: a linear layer or LSTM whose weights are int8 and whose
                             input gets its scale from each batch; it needs no pair */
} ct_quant_t;

/** Local.  All zero: nothing in eight bits.  Freed by ct_quant_clear(). */
int ct_quant_make(const ct_graph_t *g, ct_quant_t *out);
/** A zeroed one is fine. */
void ct_quant_clear(ct_quant_t *q);

#endif
