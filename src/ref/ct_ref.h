/** \file ct_ref.h  The reference backend: scalar loops, double accumulation.  Layer 1.
 *
 * Tests compare the other backends with it; it can also train (`device: ref`).  All layouts are
 * plain.
 *
 * Its queues can mimic the asynchrony of a GPU.  With CTRAIN_REF_ORDER=late, enqueued work runs
 * only when the host waits for it.  With CTRAIN_REF_ORDER=random[:seed], the work of different
 * queues also runs in random order, within the limits of events and waits.  So missing
 * synchronization shows as stale data, without a GPU. */
#ifndef CT_REF_H
#define CT_REF_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_ref;

#endif
