/** \file ct_ref.h  The reference backend: scalar loops, double accumulation.  Layer 1.
 *
 * Tests compare the other backends with it; it can also train (`device: ref`).  All layouts are
 * plain.
 *
 * Its queues can mimic the asynchrony of a GPU.  CTRAIN_REF_ORDER=late defers enqueued work until
 * it is waited for; CTRAIN_REF_ORDER=random[:seed] also runs the work of different queues in random
 * order, within the limits of events and waits.  So missing synchronization shows here as stale
 * data, without a GPU. */
#ifndef CT_REF_H
#define CT_REF_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_ref;

#endif
