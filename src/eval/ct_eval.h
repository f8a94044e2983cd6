/** \file ct_eval.h  Evaluation: each sample of a data set once, over all ranks.  Layer 4. */
#ifndef CT_EVAL_H
#define CT_EVAL_H
#include "eval/ct_eval_metrics.h"
#include "train/ct_trainer.h"

typedef struct ct_eval_result {
  double loss, top1, top5; /**< top1, top5: fractions */
  double mae;              /**< mean |output - target|; 0 with cross-entropy */
  int regression;          /**< the data has real-valued targets: top1 and top5 mean nothing */
  int64_t places;          /**< labels of a sample; top1 and top5 are of all of them */
  int64_t samples;
  ct_prf_t macro; /**< means over the classes; NaN if not measured, as what follows */
  double auc, r2;
} ct_eval_result_t;

/** One of eval.sets. */
typedef struct ct_eval_set {
  const char *name; /**< borrowed, as the data */
  const ct_dataset_t *data;
  ct_eval_result_t last; /**< samples 0: never evaluated */
} ct_eval_set_t;

/** What is measured beside loss, top1, top5 and mae. */
typedef struct ct_eval_want {
  ct_confusion_t *confusion; /**< is counted anew, the same on all ranks; NULL: not asked for.
                                  Classes: the model's outputs for a place */
  int auc;                   /**< area under the ROC curve, of samples with one label */
  int softmax;               /**< its scores are the outputs' softmax; else the outputs */
  int r2;                    /**< of samples with real-valued targets */
  int sigmoid;               /**< whose predictions are the outputs' sigmoid */
} ct_eval_want_t;

/** Pure.  The scores of an evaluation; NaN for what it does not have. */
ct_scores_t ct_eval_scores(const ct_eval_result_t *e);

/** Who is asked after each batch of an evaluation, on every rank, whether to break it off: returns
 * a stop word (ct_stop.h), 0 to go on. */
typedef struct ct_ask {
  int64_t (*stop)(void *ctx);
  void *ctx;
} ct_ask_t;

/** Collective.  Each sample exactly once.  Ranks agree after each batch: a failure on one of them,
 * or a request to stop, ends it for all.  \a want and \a ask may be NULL.  *stop: the request that
 * broke it off, *out is zero then; 0: it came to its end. */
int ct_evaluate(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                const ct_eval_want_t *want, const ct_ask_t *ask, int64_t *stop,
                ct_eval_result_t *out);

#endif
