/** \file ct_quantized.h  A quantized model: the folded graph, its fake-quantized graph, and their
 * weights.  Layer 4.  All functions are local. */
#ifndef CT_QUANTIZED_H
#define CT_QUANTIZED_H
#include "model/ct_fold.h"
#include "model/ct_observe.h"

/** What the trainer of a quantized model executes. */
typedef enum {
  CT_QUANTIZED_OBSERVED, /**< the fake-quantized graph, for calibration and evaluation */
  CT_QUANTIZED_INT8,     /**< the folded graph in int8 */
  CT_QUANTIZED_FOLDED    /**< the folded graph in float32 */
} ct_quantized_as_t;

/** The state of `quantize`. */
typedef struct ct_quantized {
  ct_fold_t fold;         /**< the model with batchnorms folded into convolutions */
  ct_observed_t observed; /**< fold.graph with fake-quantization observers */
  float **value;          /**< owned: parameters of observed.graph as plain float32 */
  int dynamic;            /**< 1: dynamically quantized */
  ct_quantized_as_t as;   /**< graph of the trainer */
  int logits_only;        /**< 1: the trainer computes no loss, as for prediction */
  ct_quant_t quant;       /**< int8 weights, scales and zero points */
} ct_quantized_t;

/** Makes the folded and the fake-quantized graph of a model; all values are 0.  \a whole: the model
 * without observers, borrowed.  CT_ERR_NOMEM. */
int ct_quantized_make(const ct_graph_t *whole, ct_quantized_t *out);
/** Frees the contents of *q, which may be all zero: nothing to free. */
void ct_quantized_clear(ct_quantized_t *q);
/** Frees \a q and its contents; \a q may be NULL. */
void ct_quantized_free(ct_quantized_t *q);
/** Folds and copies the weights, and copies the ranges if \a from has them.  \a from: the whole
 * model or its fake-quantized graph; plain[]: the parameters of \a from.  CT_ERR_FORMAT names a
 * missing parameter. */
int ct_quantized_take(ct_quantized_t *q, const ct_graph_t *from, float *const *plain);
/** Rounds the weights to the values that int8 can represent. */
int ct_quantized_round(ct_quantized_t *q);

/** Returns the graph that the trainer executes, which q->as selects. */
const ct_graph_t *ct_quantized_graph(const ct_quantized_t *q);

#endif
