/** \file ct_predict.h  Prediction: a model's outputs for each sample of a data set, in order, over
 * all ranks.  Layer 4. */
#ifndef CT_PREDICT_H
#define CT_PREDICT_H
#include "train/ct_trainer.h"

/** Who is given the outputs: rank 0, in the order of the samples, each once. */
typedef struct ct_predict_to {
  /** Local. Outputs [n, outputs of the model] of the samples from \a first on; lost[n]: 1 for
   * those that could not be read (ct_dataset_t.skip), whose outputs mean nothing. A code ends
   * it. */
  int (*take)(void *ctx, int64_t first, int64_t n, const float *outputs, const char *lost);
  void *ctx;
} ct_predict_to_t;

/** Collective. A sample that cannot be read ends it, or with ct_dataset_t.skip is told by a
 * warning and lost, while all others stay what they are. Runs all samples of \a d through the
 * model, \a batch of them at a time over all ranks. A failure of any rank ends it for all. */
int ct_predict(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
               const ct_predict_to_t *to);

/** Pure.  Logits [n, k] to what a user is told, in place: probabilities by softmax where the loss
 * is cross-entropy, by the sigmoid where it is `bce`; else they stay. */
void ct_predict_finish(ct_loss_kind_t loss, int64_t n, int64_t k, float *outputs);
/** Pure.  The \a top largest of k values, the largest first, of equals the first; which[top]. */
void ct_predict_top(const float *values, int64_t k, int top, int64_t *which);

#endif
