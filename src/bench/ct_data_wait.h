/** \file ct_data_wait.h  Measures in a few training steps how long they wait for data.  Layer 5. */
#ifndef CT_DOCTOR_STEPS_H
#define CT_DOCTOR_STEPS_H
#include "setup/ct_setup.h"

/** Sums over steps. */
typedef struct ct_doctor_steps {
  int64_t steps;
  double seconds; /**< duration of the steps */
  double wait_s;  /**< the part of `seconds` spent waiting for samples, by the rank that waits
                       longest in each step */
} ct_doctor_steps_t;

/** Collective.  Makes \a steps (at least 1) training steps with the data feed of a run, after some
 * untimed ones.  Data and model must be open; the device may be open; the weights are discarded.
 * Opens the communicator and the trainer, which ct_setup_close() closes.  CT_ERR_DEVICE: a rank has
 * no device; other errors are those of a step. */
int ct_doctor_steps(ct_setup_t *s, int64_t steps, ct_doctor_steps_t *out);

#endif
