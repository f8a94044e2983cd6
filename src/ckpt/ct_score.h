/** \file ct_score.h  Scores of evaluations, and which was the best one so far.  Layer 3.  Pure.
 *
 * What a checkpoint keeps of it is four numbers, so that a run that goes on knows it too. */
#ifndef CT_SCORE_H
#define CT_SCORE_H
#include <stdint.h>

/** What is looked at; the words of a key's choices, in this order, are off and CT_SCORE_KINDS. */
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

/** One evaluation: indexed by ct_score_kind_t. */
typedef struct ct_scores {
  double of[CT_SCORE_COUNT];
} ct_scores_t;

/** The best so far of one kind.  All zeros: none yet. */
typedef struct ct_best {
  int64_t kind; /**< ct_score_kind_t */
  double value;
  int64_t step; /**< after which it was evaluated */
  int64_t bad;  /**< evaluations since then, none of which was better */
} ct_best_t;

/** Takes an evaluation in; 1 if it is the best so far.  One that is as good as the best is not
 * better, and what is not a number is no score at all: it counts as bad.  Another \a kind than
 * before begins anew; CT_SCORE_OFF: nothing is done. */
int ct_best_take(ct_best_t *b, int kind, const ct_scores_t *scores, int64_t step);
/** The word of a kind. */
const char *ct_score_word(int kind);
/** The kind of a word; CT_SCORE_OFF: it is none. */
int ct_score_kind(const char *word);
/** Losses and errors; all others are the better the more there is of them. */
int ct_score_less_is_better(int kind);

#endif
