/** \file ct_histograms.h  Histograms of weights and gradients for TensorBoard.  Layer 4. */
#ifndef CT_HISTOGRAMS_H
#define CT_HISTOGRAMS_H
#include "telemetry/ct_events.h"
#include "train/ct_trainer.h"

/** Local, between two steps, on the rank that writes the event files.  Histograms of all weights
 * and of the gradients of the last step; with parallel.zero, where no rank has a whole gradient, of
 * the weights alone.  \a step: the step they are shown at. */
int ct_histograms(ct_events_t *events, ct_trainer_t *t, const ct_graph_t *g, int64_t step);

#endif
