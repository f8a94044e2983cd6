/** \file ct_calibrate.h  Calibration: the ranges of a fake-quantized model (ct_observe.h) from
 * data. Layer 4. */
#ifndef CT_CALIBRATE_H
#define CT_CALIBRATE_H
#include "quant/ct_range.h"
#include "train/ct_trainer.h"

/** The data and the method of a calibration. */
typedef struct ct_calibration {
  const ct_dataset_t *data;
  int64_t batches; /**< number of global batches, which are drawn from all data */
  int64_t batch;   /**< samples in a global batch */
  uint64_t seed;   /**< seed of the order of samples */
  int workers;
  ct_range_method_t method;
  double percent; /**< for CT_RANGE_PERCENTILE */
} ct_calibration_t;

/** Collective.  Runs the batches twice and sets the ranges of the trainer, which must be unset
 * before; *samples: number of samples used.  The result is identical on all ranks, and independent
 * of the number of ranks except for the rounding of float32 sums. */
int ct_calibrate(ct_trainer_t *t, const ct_graph_t *g, const ct_calibration_t *c, int64_t *samples);

#endif
