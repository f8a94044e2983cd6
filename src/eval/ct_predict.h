/** \file ct_predict.h  Prediction: a model's outputs for each sample of a data set, in order, over
 * all ranks.  Layer 4. */
#ifndef CT_PREDICT_H
#define CT_PREDICT_H
#include "train/ct_trainer.h"

/** Receives the outputs on rank 0, in the order of the samples, each sample once. */
typedef struct ct_predict_to {
  /** Local.  Takes the outputs [n][values of all outputs, in their order] of n samples from
   * \a first on; lost[n]: 1 for samples that could not be read (ct_dataset_t.skip), whose outputs
   * are undefined.  An error code ends the prediction. */
  int (*take)(void *ctx, int64_t first, int64_t n, const float *outputs, const char *lost);
  void *ctx;
} ct_predict_to_t;

/** Collective.  Runs all samples of \a d through the model, \a batch at a time over all ranks.  A
 * sample that cannot be read is an error, or with ct_dataset_t.skip a warning, and is marked as
 * lost.  An error on any rank ends the prediction on all. */
int ct_predict(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
               const ct_predict_to_t *to);

/** Pure.  Converts logits [n, k, places] to predictions in place: softmax over k if the loss is
 * cross-entropy, sigmoid if it is `bce`; otherwise unchanged. */
void ct_predict_finish(ct_loss_kind_t loss, int64_t n, int64_t k, int64_t places, float *outputs);
/** Pure.  Writes the indices of the \a top largest of k values to which[top], largest first; of
 * equal values, the first comes first. */
void ct_predict_top(const float *values, int64_t k, int top, int64_t *which);

#endif
