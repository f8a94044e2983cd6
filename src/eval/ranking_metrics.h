/** \file ranking_metrics.h  AUC, average precision and R2 of an evaluation, which are computed
 * after the last batch. */
#ifndef CT_RANKING_METRICS_H
#define CT_RANKING_METRICS_H
#include "comm/ct_agree.h"
#include "eval/compared.h"

/** Values of this rank.  May be all zero: no values are collected. */
typedef struct ct__ranking {
  /* for the area under the ROC curve and the average precision: */
  int64_t classes; /**< 0: not requested */
  int softmax;     /**< 1: converts the outputs to probabilities; 0: compares them as they are */
  int sets;        /**< 1: a sample has any number of labels */
  float *score;    /**< [n][classes] */
  int32_t *label;  /**< [n]; with sets [n][classes], 1: it has the label, -1: unknown */
  int64_t n, cap;
  /* for R2, for each output over the samples of this rank: */
  int64_t outputs;  /**< 0: not requested */
  int sigmoid;      /**< 1: the outputs are logits of the predictions */
  double *mean;     /**< mean of the targets */
  double *spread;   /**< sum of squares of target minus mean */
  double *residual; /**< sum of squares of target minus prediction */
  double *seen;     /**< number of targets */
} ct__ranking_t;

/** Local.  Allocates memory for \a samples samples of this rank. */
int ct__ranking_open(ct__ranking_t *s, int64_t samples);
void ct__ranking_close(ct__ranking_t *s);
/** Local, Hot.  Adds a batch. */
void ct__ranking_batch(ct__ranking_t *s, const ct__compared_t *b);
/** Collective.  Computes the means over the classes of the AUC of one class against all others and
 * of the average precision; with two classes and one label per sample, those of the second class.
 * The means exclude classes without positive samples, that of the AUC also those without negative
 * ones; NaN if there is no other.  With sets, classes without positive samples have the average
 * precision 0, as in scikit-learn. */
int ct__ranking_auc(ct__ranking_t *s, const ct_topo_t *topo, double *auc, double *map);
/** Collective.  Computes R2, mean over the outputs. */
int ct__ranking_r2(ct__ranking_t *s, const ct_topo_t *topo, double *r2);

#endif
