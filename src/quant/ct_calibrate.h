/** \file ct_calibrate.h  The ranges of an observed model (ct_observe.h) from data.  Layer 4. */
#ifndef CT_CALIBRATE_H
#define CT_CALIBRATE_H
#include "quant/ct_range.h"
#include "train/ct_trainer.h"

/** What is looked at, and how. */
typedef struct ct_calibration {
  const ct_dataset_t *data;
  int64_t batches, batch; /**< global ones of so many samples, drawn from all of the data */
  uint64_t seed;          /**< of the order */
  int workers;
  ct_range_method_t method;
  double percent; /**< of CT_RANGE_PERCENTILE */
} ct_calibration_t;

/** Collective.  Runs the batches twice and puts what was found into the trainer, whose ranges must
 * be nothing; *samples: how many were looked at.  The same on all ranks, and whatever their number
 * is but for sums of float32. */
int ct_calibrate(ct_trainer_t *t, const ct_graph_t *g, const ct_calibration_t *c, int64_t *samples);

#endif
