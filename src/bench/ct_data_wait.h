/** \file ct_data_wait.h  A few steps of a run, to see how long they wait for data.  Layer 5. */
#ifndef CT_DOCTOR_STEPS_H
#define CT_DOCTOR_STEPS_H
#include "setup/ct_setup.h"

/** Sums over steps. */
typedef struct ct_doctor_steps {
  int64_t steps;
  double seconds; /**< from one step's end to the next one's */
  double wait_s;  /**< of these, waited for samples by the rank that waited longest in its step */
} ct_doctor_steps_t;

/** Collective.  Makes \a steps (at least 1) steps of training, with the feed that a run would have,
 * behind some that do not count; data and model are open, the device may be, and the weights are
 * nothing.  Opens communicator and trainer, which ct_setup_close() closes.  CT_ERR_DEVICE: a rank
 * has none; what fails in a step. */
int ct_doctor_steps(ct_setup_t *s, int64_t steps, ct_doctor_steps_t *out);

#endif
