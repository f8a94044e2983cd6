/** \file ct_score.h  Evaluation scores and the best one so far. Layer 3. Pure.
 *
 * A checkpoint stores the best score as four numbers, so that a resumed run continues with it. */
#ifndef CT_SCORE_H
#define CT_SCORE_H
#include <stdint.h>

/** Kinds of scores. A key's choices, in this order, are off and CT_SCORE_KINDS. */
typedef enum {
  CT_SCORE_OFF,
  CT_SCORE_LOSS,
  CT_SCORE_TOP1,
  CT_SCORE_TOP5,
  CT_SCORE_MAE,
  CT_SCORE_PRECISION,
  CT_SCORE_RECALL,
  CT_SCORE_F1,
  CT_SCORE_AUC,
  CT_SCORE_R2,
  CT_SCORE_COUNT
} ct_score_kind_t;
#define CT_SCORE_KINDS "loss|top1|top5|mae|precision|recall|f1|auc|r2"

/** Scores of one evaluation, indexed by ct_score_kind_t. */
typedef struct ct_scores {
  double of[CT_SCORE_COUNT];
} ct_scores_t;

/** The best score so far of one kind. All zeros: none yet. */
typedef struct ct_best {
  int64_t kind; /**< ct_score_kind_t */
  double value;
  int64_t step; /**< step of that evaluation */
  int64_t bad;  /**< evaluations since then without improvement */
} ct_best_t;

/** Adds an evaluation; returns 1 if its score is the best so far. A score that is equal to the best
 * one or NaN does not count as an improvement. If \a kind differs from the previous one, starts
 * over. CT_SCORE_OFF: does nothing. */
int ct_best_take(ct_best_t *b, int kind, const ct_scores_t *scores, int64_t step);
/** Returns the name of a kind. */
const char *ct_score_word(int kind);
/** Returns the kind with the name \a word; CT_SCORE_OFF if the name is unknown. */
int ct_score_kind(const char *word);
/** Returns 1 for losses and errors, where lower is better; 0 for all others. */
int ct_score_less_is_better(int kind);

#endif
