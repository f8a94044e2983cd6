/** \file quantized.h  A quantized model between its file, the weights it comes from, and a trainer.
 * Layer 5. */
#ifndef CT_APP_QUANTIZED_H
#define CT_APP_QUANTIZED_H
#include "app/setup.h"

/** What the trainer of a quantized model computes. */
typedef enum {
  CT_QUANTIZED_OBSERVED, /**< the observed graph, to calibrate or count */
  CT_QUANTIZED_EIGHT,    /**< the folded one in eight bits */
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
/** Local.  s->quantized, of the model of \a s; values are 0. */
int ct_quantized_add(ct_setup_t *s);
/** NULL is fine. */
void ct_quantized_free(ct_quantized_t *q);
/** The weights, folded, and the ranges if there are some, from the parameters plain[] of \a from:
 * of the whole model, or of its observed graph. */
int ct_quantized_take(ct_quantized_t *q, const ct_graph_t *from, float *const *plain);
/** Rounds the weights as eight bits have them. */
int ct_quantized_round(ct_quantized_t *q);

/** What its trainer has. */
const ct_graph_t *ct_quantized_graph(const ct_quantized_t *q);
/** Collective.  s->trainer, for evaluation or prediction, of s->quantized with rank 0's values,
 * which the others are told. */
int ct_quantized_trainer(ct_setup_t *s, ct_quantized_as_t as, int logits_only);
/** Collective.  1 if rank 0's checkpoint is a quantized model. */
int ct_quantized_is(const ct_topo_t *topo, const ct_ckpt_found_t *checkpoint);
/** Collective, after ct_setup_model().  s->quantized of the checkpoint, which rank 0 has open, and
 * s->trainer of it, which computes in eight bits where the device can. */
int ct_quantized_open(ct_setup_t *s, const ct_ckpt_found_t *checkpoint);

#endif
