/** \file kern/loss_places.h  Cross-entropy with a label for each place of a sample.
 * Module-internal. */
#ifndef CT_KERN_LOSS_PLACES_H
#define CT_KERN_LOSS_PLACES_H
#include "cpu/kern/loops.h"

typedef struct cpu__places {
  const cpu__loops_t *loops;
  ct_loss_spec_t spec;
  int64_t samples, classes, places;
} cpu__places_t;

/** Bytes of scratch of the forward pass. */
size_t cpu__places_scratch(const cpu__places_t *k);
/** Hot.  Overwrites *a->loss.  CT_ERR_DATA: a label is no class. */
int cpu__places_forward(const cpu__places_t *k, const ct_op_args_t *a);
/** Hot.  The labels were checked by the forward pass. */
void cpu__places_backward(const cpu__places_t *k, const ct_op_args_t *a);

#endif
