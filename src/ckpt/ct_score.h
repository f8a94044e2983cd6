/** \file ct_score.h  Evaluation scores and the best one so far. Layer 3. Pure.
 *
 * A checkpoint stores the best score as four numbers, so that a resumed run continues with it. */
#ifndef CT_SCORE_H
#define CT_SCORE_H
#include <stdint.h>

/** What a model's outputs are compared with; bits. */
enum {
  CT_SCORE_OF_LABELS = 1, /**< class labels: one per sample, or one per pixel */
  CT_SCORE_OF_SETS = 2,  /**< targets 0 and 1 of the loss bce: a sample, or pixel, has any number of
                               labels (multi-label) */
  CT_SCORE_OF_VALUES = 4 /**< other real-valued targets */
};

/** The scores besides the loss: X(NAME, word, lower is better, computed from counts alone, bits of
 * what the outputs are compared with). A checkpoint stores the number of a score, so new rows
 * follow the old ones. */
#define CT_SCORE_LIST(X)                                                   \
  X(TOP1, top1, 0, 1, CT_SCORE_OF_LABELS)                                  \
  X(TOP5, top5, 0, 1, CT_SCORE_OF_LABELS)                                  \
  X(MAE, mae, 1, 0, CT_SCORE_OF_SETS | CT_SCORE_OF_VALUES)                 \
  X(PRECISION, precision, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)     \
  X(RECALL, recall, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)           \
  X(F1, f1, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)                   \
  X(AUC, auc, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)                 \
  X(R2, r2, 0, 0, CT_SCORE_OF_SETS | CT_SCORE_OF_VALUES)                   \
  X(IOU, iou, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)                 \
  X(IOU_SAMPLE, iou_sample, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)   \
  X(DICE, dice, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)               \
  X(DICE_SAMPLE, dice_sample, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS) \
  X(F1_MICRO, f1_micro, 0, 1, CT_SCORE_OF_SETS)                            \
  X(SUBSET_ACCURACY, subset_accuracy, 0, 1, CT_SCORE_OF_SETS)              \
  X(LABEL_ACCURACY, label_accuracy, 0, 1, CT_SCORE_OF_SETS)                \
  X(MAP, map, 0, 1, CT_SCORE_OF_LABELS | CT_SCORE_OF_SETS)                 \
  X(RMSE, rmse, 1, 0, CT_SCORE_OF_SETS | CT_SCORE_OF_VALUES)               \
  X(VRMSE, vrmse, 1, 0, CT_SCORE_OF_SETS | CT_SCORE_OF_VALUES)             \
  X(RELATIVE_L2, relative_l2, 1, 0, CT_SCORE_OF_SETS | CT_SCORE_OF_VALUES) \
  X(PERPLEXITY, perplexity, 1, 0, CT_SCORE_OF_LABELS)                      \
  X(BITS_PER_BYTE, bits_per_byte, 1, 0, CT_SCORE_OF_LABELS)

/** Kinds of scores. A key's choices, in this order, are off and CT_SCORE_KINDS. */
typedef enum {
  CT_SCORE_OFF,
  CT_SCORE_LOSS,
#define X(name, ...) CT_SCORE_##name,
  CT_SCORE_LIST(X)
#undef X
      CT_SCORE_COUNT
} ct_score_kind_t;
#define CT_SCORE_ALSO(name, word, ...) "|" #word
#define CT_SCORE_KINDS                 "loss" CT_SCORE_LIST(CT_SCORE_ALSO)

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
/** Returns 1 if the score is computed from counts, so that its last bits do not depend on rounding
 * errors of the outputs. */
int ct_score_is_counted(int kind);
/** Returns the bits of what outputs may be compared with for this score. */
int ct_score_of(int kind);

#endif
