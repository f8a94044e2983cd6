/** \file ct_lr_range.h  The learning rate range test of Smith (2017, "Cyclical Learning Rates"):
 * the loss while the rate grows, and which rates it suggests.  Layer 5.  Pure. */
#ifndef CT_LR_RANGE_H
#define CT_LR_RANGE_H
#include "base/ct_text.h"

enum { CT_LR_STEPS = 10000 };

typedef struct ct_lr_range {
  int n;
  int diverged; /**< the loss was no number, or 4 times the least so far */
  int least;    /**< where the smoothed loss is the least */
  double mean;  /**< of the losses, exponentially weighted, not yet corrected */
  double rate[CT_LR_STEPS], loss[CT_LR_STEPS];
  double smooth[CT_LR_STEPS];
} ct_lr_range_t;

/** The rate of step i of n > 1: from \a from to \a to, by the same factor each time. */
double ct_lr_rate(double from, double to, int i, int n);
/** The loss of the next step; returns 1 if it is of no use to go on. */
int ct_lr_add(ct_lr_range_t *r, double rate, double loss);
/** The rate at which the smoothed loss falls most steeply over the logarithm of the rate, and a
 * tenth of that at which it is the least; 0 if it did not fall. */
double ct_lr_steepest(const ct_lr_range_t *r);
double ct_lr_tenth(const ct_lr_range_t *r);
/** A table with a plot.  \a scale: the rate of a step is optim.lr times this.  Appended. */
int ct_lr_text(const ct_lr_range_t *r, double scale, ct_str_t *out);
int ct_lr_json(const ct_lr_range_t *r, double scale, ct_str_t *out);

#endif
