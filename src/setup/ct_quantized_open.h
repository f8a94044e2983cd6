/** \file ct_quantized_open.h  Creates a trainer for a quantized (int8) model.  Layer 5. */
#ifndef CT_QUANTIZED_OPEN_H
#define CT_QUANTIZED_OPEN_H
#include "quant/ct_quantized.h"
#include "setup/ct_setup.h"

/** Local.  Allocates s->quantized for the model of \a s; all its values are 0. */
int ct_quantized_add(ct_setup_t *s);
/** Collective.  Creates s->trainer for evaluation or prediction with s->quantized.  Rank 0's values
 * are broadcast to the other ranks. */
int ct_quantized_trainer(ct_setup_t *s, ct_quantized_as_t as, int logits_only);
/** Collective.  Returns 1 if the checkpoint that rank 0 has open is a quantized model. */
int ct_quantized_is(const ct_topo_t *topo, const ct_ckpt_found_t *checkpoint);
/** Collective, after ct_setup_model().  Reads s->quantized from the checkpoint that rank 0 has open
 * and creates s->trainer, which computes in int8 where the device supports it. */
int ct_quantized_open(ct_setup_t *s, const ct_ckpt_found_t *checkpoint);

#endif
