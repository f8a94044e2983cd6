/* Determines the best evaluation: lower is better for losses and errors, higher for all other
 * scores. */
#include "ckpt/ct_score.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *word;
  int less_is_better, is_counted, of;
} scores_of[CT_SCORE_COUNT] = {[CT_SCORE_OFF] = {"off", 0, 1, -1},
                               [CT_SCORE_LOSS] = {"loss", 1, 0, -1},
#define X(name, word, less, counted, of) [CT_SCORE_##name] = {#word, less, counted, of},
                               CT_SCORE_LIST(X)
#undef X
};

int ct_score_less_is_better(int kind)
{
  return scores_of[kind].less_is_better;
}

int ct_score_is_counted(int kind)
{
  return scores_of[kind].is_counted;
}

int ct_score_of(int kind)
{
  return scores_of[kind].of;
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

const char *ct_score_word(int kind)
{
  return scores_of[kind].word;
}

int ct_score_kind(const char *word)
{
  for (int i = CT_SCORE_OFF + 1; i < CT_SCORE_COUNT; i++)
    if (strcmp(scores_of[i].word, word) == 0) return i;
  return CT_SCORE_OFF;
}
