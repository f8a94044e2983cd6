/** \file ct_eval.h  Evaluation of a data set over all ranks, each sample exactly once.  Layer 4. */
#ifndef CT_EVAL_H
#define CT_EVAL_H
#include "eval/ct_eval_metrics.h"
#include "train/ct_trainer.h"
#include <jansson.h>

/** Result of one of several losses. */
typedef struct ct_eval_part {
  const char *name; /**< borrowed from the trainer's losses: of its output */
  double loss, top1, top5, mae;
  int regression; /**< 1: not cross-entropy: top1 and top5 are undefined; 0: mae is undefined */
} ct_eval_part_t;

/** Maximum number of channels whose errors are also listed one by one. */
#define CT_EVAL_CHANNELS 64
/** Errors of a channel. */
typedef struct ct_eval_channel {
  double mae, rmse, vrmse; /**< vrmse: NaN if a channel has a single value per sample */
} ct_eval_channel_t;

typedef struct ct_eval_result {
  double loss;
  double top1, top5; /**< fraction of samples whose label is the most likely class, or among
                                the five most likely classes */
  double mae;        /**< mean |output - target|; 0 with cross-entropy */
  int regression;    /**< 1: real-valued targets; top1 and top5 are undefined */
  int64_t pixels;    /**< labels per sample (pixels); top1 and top5 are over all of them */
  int64_t samples;
  int64_t tokens;   /**< windows of tokens: those that were predicted and counted; 0: there are
                       none */
  ct_scores_t more; /**< scores after CT_SCORE_MAE; NaN: not measured */
  int channels;     /**< of `channel`; 0: not measured, or too many */
  ct_eval_channel_t channel[CT_EVAL_CHANNELS];
  ct_eval_part_t part[CT_OUTPUTS]; /**< the losses, if there are several; then `loss` is their
                                        weighted sum, and top1, top5 and mae are of the first */
  int parts;
} ct_eval_result_t;

/** One of eval.sets. */
typedef struct ct_eval_set {
  const char *name;         /**< borrowed */
  const ct_dataset_t *data; /**< borrowed */
  ct_eval_result_t last;    /**< samples 0: never evaluated */
} ct_eval_set_t;

/** Metrics to measure besides loss, top1, top5 and mae. */
typedef struct ct_eval_want {
  ct_confusion_t *confusion;  /**< matrix to fill, identical on all ranks afterwards; it has one
                                  class per output of the model for one label; NULL: none */
  int head;                   /**< number of the loss whose output and target are compared */
  int64_t channels;           /**< of that output, for real-valued targets */
  int of;                     /**< what it is compared with: a bit CT_SCORE_OF_… */
  int softmax;                /**< for auc and map: 1: the scores are the softmax of the outputs; 0:
                                  the outputs */
  int sigmoid;                /**< for errors: 1: the predictions are the sigmoid of the outputs */
  char score[CT_SCORE_COUNT]; /**< 1: to measure.  Scores of classes need `confusion`; auc and map
                                   one label, or one value of each channel, per sample */
} ct_eval_want_t;

/** Pure.  Returns the scores of an evaluation; scores that were not measured are NaN. */
ct_scores_t ct_eval_scores(const ct_eval_result_t *e);
/** Pure.  ct_eval_scores() of one of several losses, which is of that output; "": of their sum. */
ct_scores_t ct_eval_scores_of(const ct_eval_result_t *e, const char *output);

/** Returns a new JSON list with the errors of each channel: channel, mae, rmse, vrmse; NULL: there
 * are none, or no memory. */
json_t *ct_eval_channels_json(const ct_eval_result_t *e);

/** Called on every rank after each batch of an evaluation: returns a stop request (ct_stop.h), or 0
 * to continue. */
typedef struct ct_ask {
  int64_t (*stop)(void *ctx);
  void *ctx;
} ct_ask_t;

/** Collective.  Evaluates each sample exactly once.  Ranks agree after each batch: an error or a
 * stop request on one rank ends the evaluation on all.  \a want and \a ask may be NULL.  *stop: 0
 * if the evaluation is complete; otherwise the stop request that interrupted it, and *out is zero.
 */
int ct_evaluate(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                const ct_eval_want_t *want, const ct_ask_t *ask, int64_t *stop,
                ct_eval_result_t *out);

#endif
