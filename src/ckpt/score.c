/* Determines the best evaluation: lower is better for losses and errors, higher for all other
 * scores. */
#include "ckpt/ct_score.h"

#include <math.h>
#include <string.h>

int ct_score_less_is_better(int kind)
{
  return kind == CT_SCORE_LOSS || kind == CT_SCORE_MAE;
}

static int is_better(int kind, double a, double b)
{
  return ct_score_less_is_better(kind) ? a < b : a > b;
}

int ct_best_take(ct_best_t *b, int kind, const ct_scores_t *scores, int64_t step)
{
  double value = scores->of[kind];
  if (kind == CT_SCORE_OFF) return 0;
  if (b->kind != kind) *b = (ct_best_t){.kind = kind, .value = NAN};
  if (isnan(value) || !(isnan(b->value) || is_better(kind, value, b->value))) {
    b->bad++;
    return 0;
  }
  *b = (ct_best_t){.kind = kind, .value = value, .step = step};
  return 1;
}

static const char *const words[CT_SCORE_COUNT] = {"off",       "loss",   "top1", "top5", "mae",
                                                  "precision", "recall", "f1",   "auc",  "r2"};

const char *ct_score_word(int kind)
{
  return words[kind];
}

int ct_score_kind(const char *word)
{
  for (int i = CT_SCORE_OFF + 1; i < CT_SCORE_COUNT; i++)
    if (strcmp(words[i], word) == 0) return i;
  return CT_SCORE_OFF;
}
