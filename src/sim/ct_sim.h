/** \file ct_sim.h  A backend that takes time instead of computing: many ranks on few cores.
 * Layer 1.
 *
 * Each op sleeps as long as it took in a recorded run (the file that `bench step --ops --json`
 * prints; ct_dev_sim_t.times), or as its arithmetic and bytes say; memory, sampler, feed, buckets,
 * communicators, checkpoints are the real ones.  Nothing is computed: activations and gradients are
 * zeros, weights stay what they are, the loss of a sample is 1.
 *
 * A recorded op is known by its text (ct_op_text()) and pass; one that was recorded at another
 * batch size counts in proportion; ops that the file does not have, and updates, go by the rates.
 * The idea is that of simulators such as SimGrid's SMPI, which benchmark a computation once and
 * then only account for it. */
#ifndef CT_SIM_H
#define CT_SIM_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_sim;

#endif
