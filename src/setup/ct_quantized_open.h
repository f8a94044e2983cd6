/** \file ct_quantized_open.h  From a quantized model to a trainer of it.  Layer 5. */
#ifndef CT_QUANTIZED_OPEN_H
#define CT_QUANTIZED_OPEN_H
#include "quant/ct_quantized.h"
#include "setup/ct_setup.h"

/** Local.  s->quantized, of the model of \a s; values are 0. */
int ct_quantized_add(ct_setup_t *s);
/** Collective.  s->trainer, for evaluation or prediction, of s->quantized with rank 0's values,
 * which the others are told. */
int ct_quantized_trainer(ct_setup_t *s, ct_quantized_as_t as, int logits_only);
/** Collective.  1 if rank 0's checkpoint is a quantized model. */
int ct_quantized_is(const ct_topo_t *topo, const ct_ckpt_found_t *checkpoint);
/** Collective, after ct_setup_model().  s->quantized of the checkpoint, which rank 0 has open, and
 * s->trainer of it, which computes in eight bits where the device can. */
int ct_quantized_open(ct_setup_t *s, const ct_ckpt_found_t *checkpoint);

#endif
