/** \file ct_eval_metrics.h  Metrics of classification and regression besides loss and accuracy.
 * Layer 4. Pure and local.  Definitions and corner cases are those of scikit-learn. */
#ifndef CT_MEASURES_H
#define CT_MEASURES_H
#include "eval/ct_confusion.h"

/** Metrics of one class, or their means over classes. */
typedef struct ct_prf {
  double precision; /**< true positives / predicted positives; 0 without predicted positives */
  double recall;    /**< true positives / positives; 0 without positives */
  double f1;        /**< harmonic mean of both; 0 if both are 0 */
} ct_prf_t;

/** Returns the metrics of one class; NaN if no sample has this class as label or prediction. */
ct_prf_t ct_prf_class(const ct_confusion_t *c, int64_t label);
/** Returns the means over the classes that occur as labels or predictions, as
 * sklearn.metrics.f1_score(average="macro", zero_division=0), which with any number of labels per
 * sample counts other classes as 0.  NaN without samples. */
ct_prf_t ct_prf_macro(const ct_confusion_t *c);

/** Mean of \a of over the classes that occur as labels or predictions; NaN without samples. */
double ct_class_mean(const ct_confusion_t *c, double (*of)(const ct_class_count_t *n));
/* The next three are of samples with any number of labels; NaN without samples. */
/** F1 of all classes together: sklearn.metrics.f1_score(average="micro"). */
double ct_f1_micro(const ct_confusion_t *c);
/** Fraction of the samples whose labels are all predicted: sklearn.metrics.accuracy_score. */
double ct_subset_accuracy(const ct_confusion_t *c);
/** Fraction of right predictions of one class, and its mean over the classes: 1 -
 * sklearn.metrics.hamming_loss. */
double ct_class_accuracy(const ct_class_count_t *n);
double ct_label_accuracy(const ct_confusion_t *c);

/** The score of a sample for one class. */
typedef struct ct_scored {
  float score;
  int32_t positive; /**< 1: the sample is of the class */
} ct_scored_t;
/** Returns the area under the ROC curve: the probability that a positive sample has a higher score
 * than a negative sample; equal scores count half (Mann and Whitney 1947;
 * sklearn.metrics.roc_auc_score).  Sorts s[n].  NaN: all samples are positive, or all are negative,
 * or a score is NaN. */
double ct_auc(ct_scored_t *s, int64_t n);
/** Returns the average precision: the sum over the scores, as thresholds, of precision times the
 * increase of recall (sklearn.metrics.average_precision_score).  Sorts s[n].  NaN: no sample is
 * positive, or a score is NaN. */
double ct_average_precision(ct_scored_t *s, int64_t n);

/** Returns the coefficient of determination of one output, 1 - \a residual / \a total; both are
 * sums of squares.  For a constant target (total is 0): 1 if the residual is 0, otherwise 0
 * (sklearn.metrics.r2_score). */
double ct_r2(double residual, double total);

#endif
