/** \file ct_ref.h  The reference backend: scalar loops, double accumulation.  Layer 1.
 *
 * The oracle of every test, and a backend like any other (`device: ref`).  Layouts are plain.
 *
 * Its queues can be made as treacherous as a GPU's.  CTRAIN_REF_ORDER=late keeps every enqueued
 * piece of work until somebody waits for it; CTRAIN_REF_ORDER=random[:seed] also runs the work of
 * different queues in random order, as far as marks and waits allow.  Code that forgets to wait
 * then reads old numbers here, and not first on a GPU. */
#ifndef CT_REF_H
#define CT_REF_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_ref;

#endif
