/** \file ct_lr_range.h  Learning rate range test (Smith 2017, "Cyclical Learning Rates"): records
 * the loss while the rate grows, and suggests rates.  Layer 5.  All functions are pure. */
#ifndef CT_LR_RANGE_H
#define CT_LR_RANGE_H
#include "base/ct_text.h"

enum { CT_LR_STEPS = 10000 };

typedef struct ct_lr_range {
  int n;
  int diverged; /**< 1: the loss was NaN or infinite, or 4 times the smallest loss so far */
  int least;    /**< index of the smallest smoothed loss */
  double mean;  /**< exponentially weighted mean of the losses, without bias correction */
  double rate[CT_LR_STEPS], loss[CT_LR_STEPS];
  double smooth[CT_LR_STEPS];
} ct_lr_range_t;

/** Returns the rate of step i of n > 1; rates grow by a constant factor from \a from to \a to. */
double ct_lr_rate(double from, double to, int i, int n);
/** Adds the loss of a step.  Returns 1 if the test should stop, because the loss diverged. */
int ct_lr_add(ct_lr_range_t *r, double rate, double loss);
/** Return suggested rates: ct_lr_steepest() the rate at which the smoothed loss falls most steeply
 * over log(rate), and ct_lr_tenth() a tenth of the rate with the smallest loss.  0: the loss did
 * not fall. */
double ct_lr_steepest(const ct_lr_range_t *r);
double ct_lr_tenth(const ct_lr_range_t *r);
/** Append a table with a plot, or JSON.  \a scale: the rate of a step divided by optim.lr. */
int ct_lr_text(const ct_lr_range_t *r, double scale, ct_str_t *out);
int ct_lr_json(const ct_lr_range_t *r, double scale, ct_str_t *out);

#endif
