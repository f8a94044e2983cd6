/** \file ct_quantized.h  A quantized model between its file, the weights it comes from, and a
 * trainer.
 * Layer 4. */
#ifndef CT_QUANTIZED_H
#define CT_QUANTIZED_H
#include "model/ct_fold.h"
#include "model/ct_observe.h"

/** What the trainer of a quantized model computes. */
typedef enum {
  CT_QUANTIZED_OBSERVED, /**< the observed graph, to calibrate or count */
  CT_QUANTIZED_INT8,     /**< the folded one in eight bits */
  CT_QUANTIZED_FOLDED    /**< the folded one in float32 */
} ct_quantized_as_t;

/** A model as `quantize` has it: folded, and observed. */
typedef struct ct_quantized {
  ct_fold_t fold;
  ct_observed_t observed; /**< of fold.graph */
  float **value;          /**< owned: of the parameters of observed.graph, plain */
  int dynamic;
  ct_quantized_as_t as; /**< of the trainer */
  int logits_only;      /**< it computes no loss, as for prediction */
  ct_quant_t quant;     /**< the numbers of eight bits */
} ct_quantized_t;

/** Local.  \a whole is borrowed: a model without observers.  Values are 0. */
int ct_quantized_make(const ct_graph_t *whole, ct_quantized_t *out);
/** A zeroed one is fine. */
void ct_quantized_clear(ct_quantized_t *q);
/** NULL is fine. */
void ct_quantized_free(ct_quantized_t *q);
/** The weights, folded, and the ranges if there are some, from the parameters plain[] of \a from:
 * of the whole model, or of its observed graph. */
int ct_quantized_take(ct_quantized_t *q, const ct_graph_t *from, float *const *plain);
/** Rounds the weights as eight bits have them. */
int ct_quantized_round(ct_quantized_t *q);

/** What its trainer has. */
const ct_graph_t *ct_quantized_graph(const ct_quantized_t *q);

#endif
