/** \file kern/loss_rows.h  Cross-entropy of rows of logits.  Module-internal.
 *
 * A row is a sample, or one of its places with the classes last.  Its loss and the gradient by its
 * logits x follow from the logarithm of the sum of exp(x) and the logits of its labels. */
#ifndef CT_KERN_LOSS_ROWS_H
#define CT_KERN_LOSS_ROWS_H
#include "cpu/kern/op.h"

typedef struct cpu__loss_rows {
  ct_loss_spec_t spec;
  int64_t classes, rows;
  int64_t of_sample; /**< rows per sample */
} cpu__loss_rows_t;

/** Result of a row. */
typedef struct cpu__row_loss {
  double loss, weight, abs_error;
  int64_t rank; /**< number of logits ranked before the label's; -1: row that is left out */
} cpu__row_loss_t;

/** The labels of a row with their weights, without ignored ones. */
typedef struct cpu__aims {
  int n;
  int32_t label[2];
  float share[2];
  float own[2]; /**< their logits, set by the caller */
} cpu__aims_t;

/** The gradient by logit x of class i: total * exp(x) / sum of exp - spread * class weight, for the
 * labels also - part. */
typedef struct cpu__row_slope {
  float total, part[2], spread;
} cpu__row_slope_t;

/** Local.  Checks the labels.  CT_ERR_DATA names one that is out of range. */
int cpu__rows_check(const cpu__loss_rows_t *k, const ct_op_args_t *a);
int cpu__rows_ignore(const cpu__loss_rows_t *k, int32_t label);
float cpu__row_weight(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row);
float cpu__rows_class_weight(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t i);
/** Returns the sum of the class weights. */
double cpu__rows_class_weights(const cpu__loss_rows_t *k, const ct_op_args_t *a);
cpu__aims_t cpu__row_aims(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row);
/** Computes the loss; leaves out the rank, which is -1 or 0.  all: the logarithm of the sum of
 * exp(x); smoothed: with label smoothing, the sum of class weight * (all - x). */
cpu__row_loss_t cpu__row_loss(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                              const cpu__aims_t *aims, double all, double smoothed);
/** Computes the gradient; weights: cpu__rows_class_weights(). */
cpu__row_slope_t cpu__row_slope(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                                const cpu__aims_t *aims, double all, double weights);
/** Returns how many of the logits x of classes first to first + n - 1 rank before that of the first
 * label. */
int32_t cpu__row_ahead(const cpu__aims_t *aims, int64_t first, int64_t n, const float *x);
/** Adds the result of a row. */
void cpu__row_add(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                  const cpu__row_loss_t *r, ct_loss_t *sum);
/** Adds up results in the order of the rows; overwrites *a->loss. */
void cpu__rows_sum(const cpu__loss_rows_t *k, const ct_op_args_t *a, const cpu__row_loss_t *result);

#endif
