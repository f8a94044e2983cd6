/** \file ct_eval_metrics.h  Measures of classification and regression beside loss and hits.
 * Layer 4.  Pure and local.  Definitions and corner cases are scikit-learn's. */
#ifndef CT_MEASURES_H
#define CT_MEASURES_H
#include "eval/ct_confusion.h"

/** Of a class, or the mean over classes. */
typedef struct ct_prf {
  double precision; /**< of what is predicted to be it, how much is; 0 if nothing is predicted so */
  double recall;    /**< of what is it, how much is predicted to be; 0 if there is none */
  double f1;        /**< harmonic mean of both; 0 if both are */
} ct_prf_t;

/** One class; NaN if nothing is it or was predicted to be. */
ct_prf_t ct_prf_class(const ct_confusion_t *c, int64_t label);
/** The mean over the classes that are there or were predicted: sklearn.metrics.f1_score(average=
 * "macro", zero_division=0) and so on.  NaN if no sample was counted. */
ct_prf_t ct_prf_macro(const ct_confusion_t *c);

/** A sample as one class sees it. */
typedef struct ct_scored {
  float score;
  int32_t positive; /**< 1: it is of the class */
} ct_scored_t;
/** The area under the ROC curve: how often a sample of the class has a higher score than one that
 * is not, ties counting half (Mann and Whitney 1947; sklearn.metrics.roc_auc_score).  Sorts s[n].
 * NaN: all are of the class or none is, or a score is NaN. */
double ct_auc(ct_scored_t *s, int64_t n);

/** Coefficient of determination of one output: 1 - residual / total sum of squares; where the
 * target does not vary, 1 if nothing is missed, else 0 (sklearn.metrics.r2_score). */
double ct_r2(double residual, double total);

#endif
