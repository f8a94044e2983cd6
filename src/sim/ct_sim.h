/** \file ct_sim.h  A simulated device: ops sleep instead of computing, so that many ranks run on
 * few cores.  Layer 1.
 *
 * Each op sleeps for its recorded time (the file that `bench step --ops --json` prints;
 * ct_dev_sim_t.times), or for a time computed from its FLOP and bytes.  Memory, sampler, data
 * pipeline, buckets, communicators and checkpoints are real.  Nothing is computed: activations and
 * gradients are zeros, weights do not change, the loss of a sample is 1.
 *
 * A recorded op is found by its text (ct_op_text()) and pass.  Times recorded at another batch size
 * are scaled in proportion.  Ops that the file does not have, and updates, use the FLOP and byte
 * rates.  Simulators such as SimGrid's SMPI work in the same way: they benchmark a computation once
 * and then replay its time. */
#ifndef CT_SIM_H
#define CT_SIM_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_sim;

#endif
