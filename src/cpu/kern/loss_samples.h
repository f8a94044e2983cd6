/** \file kern/loss_samples.h  Losses of a sample as a whole.  Module-internal. */
#ifndef CT_KERN_LOSS_SAMPLES_H
#define CT_KERN_LOSS_SAMPLES_H
#include "cpu/kern/loops.h"

typedef struct cpu__loss_samples {
  const cpu__loops_t *loops;
  ct_loss_spec_t spec;
  int64_t samples, classes, places; /**< classes 0: another loss */
  int sums;                         /**< numbers of a block or sample, see loss_samples.c */
} cpu__loss_samples_t;

void cpu__loss_samples_prepare(cpu__loss_samples_t *k, const ct_op_desc_t *d,
                               const cpu__loops_t *loops);
/** Returns the workspace in bytes. */
size_t cpu__loss_samples_scratch(const cpu__loss_samples_t *k);
/** Hot.  Runs the passes of *a.  CT_ERR_DATA: a label is out of range. */
int cpu__loss_samples_run(const cpu__loss_samples_t *k, const ct_op_args_t *a);

#endif
