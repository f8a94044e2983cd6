/** \file quantized.h  A quantized model between its file, the weights it comes from, and a trainer.
 * Layer 5. */
#ifndef CT_APP_QUANTIZED_H
#define CT_APP_QUANTIZED_H
#include "app/setup.h"

/** A model as `quantize` has it: folded, and observed. */
typedef struct ct_quantized {
  ct_fold_t fold;
  ct_observed_t observed; /**< of fold.graph */
  float **value;          /**< owned: of the parameters of observed.graph, plain */
  int dynamic;
} ct_quantized_t;

/** Local.  \a whole is borrowed: a model without observers.  Values are 0. */
int ct_quantized_make(const ct_graph_t *whole, ct_quantized_t *out);
/** A zeroed one is fine. */
void ct_quantized_clear(ct_quantized_t *q);
/** The weights, folded, and the ranges if there are some, from the parameters plain[] of \a from:
 * of the whole model, or of its observed graph. */
int ct_quantized_take(ct_quantized_t *q, const ct_graph_t *from, float *const *plain);
/** Rounds the weights as eight bits have them. */
int ct_quantized_round(ct_quantized_t *q);

/** Local.  The values into s->trainer, which is of this model. */
int ct_quantized_set(ct_setup_t *s, const ct_quantized_t *q);
/** Collective.  s->trainer, for evaluation, of this model, with rank 0's values. */
int ct_quantized_trainer(ct_setup_t *s, ct_quantized_t *q);
/** Collective.  1 in *is if rank 0's checkpoint is a quantized model. */
int ct_quantized_is(const ct_topo_t *topo, const ct_ckpt_found_t *checkpoint, int *is);
/** Collective, after ct_setup_model().  Makes *q of the checkpoint, which rank 0 has open, and
 * s->trainer of it.  \a q must outlive the trainer. */
int ct_quantized_open(ct_setup_t *s, const ct_ckpt_found_t *checkpoint, ct_quantized_t *q);

#endif
