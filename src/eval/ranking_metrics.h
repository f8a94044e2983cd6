/** \file ranking_metrics.h  What has to be kept of the outputs of an evaluation until its end. */
#ifndef CT_SCORED_PRIVATE_H
#define CT_SCORED_PRIVATE_H
#include "comm/ct_agree.h"
#include "data/feed/ct_feed.h"

/** Of one rank.  Zeros: nothing is kept. */
typedef struct ct__scored {
  /* for the area under the ROC curve */
  int64_t classes; /**< 0: not asked for */
  int softmax;     /**< the outputs become probabilities; else they are compared as they are */
  float *score;    /**< [n][classes] */
  int32_t *label;  /**< [n] */
  int64_t n, room;
  /* for R2, of each output: of this rank's samples */
  int64_t outputs; /**< 0: not asked for */
  int sigmoid;     /**< the outputs are logits of what is predicted */
  int64_t seen;
  double *mean, *spread, *residual; /**< of the targets; sums of squares */
} ct__scored_t;

/** Local.  Room for \a samples of this rank. */
int ct__scored_open(ct__scored_t *s, int64_t samples);
void ct__scored_close(ct__scored_t *s);
/** Local, Hot.  A batch with its outputs [n][classes or outputs]; \a ignored labels, if \a
 * has_ignored, are left out. */
void ct__scored_batch(ct__scored_t *s, const ct_batch_t *b, const float *out, int has_ignored,
                      int32_t ignored);
/** Collective.  The mean over the classes of one against the rest, of two classes that of the
 * second one; NaN if no class has both. */
int ct__scored_auc(ct__scored_t *s, const ct_topo_t *topo, double *auc);
/** Collective.  The mean over the outputs. */
int ct__scored_r2(ct__scored_t *s, const ct_topo_t *topo, double *r2);

#endif
