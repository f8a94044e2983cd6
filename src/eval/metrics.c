/* Metrics: precision, recall and F1 from the integers of the confusion matrix, AUC from sorted
 * scores. The results do not depend on the distribution of samples over MPI ranks. */
#include "eval/ct_eval_metrics.h"

#include <math.h>
#include <stdlib.h>

static double ratio(int64_t part, int64_t whole)
{
  return whole ? (double)part / (double)whole : 0;
}

ct_prf_t ct_prf_class(const ct_confusion_t *c, int64_t label)
{
  int64_t right = ct_confusion_right(c, label), are = ct_confusion_samples(c, label), said = 0;
  for (int64_t i = 0; i < c->classes; i++)
    said += c->count[i * c->classes + label];
  if (are + said == 0) return (ct_prf_t){NAN, NAN, NAN};
  return (ct_prf_t){ratio(right, said), ratio(right, are), ratio(2 * right, are + said)};
}

ct_prf_t ct_prf_macro(const ct_confusion_t *c)
{
  ct_prf_t sum = {0};
  int64_t found = 0;
  for (int64_t k = 0; k < c->classes; k++) {
    ct_prf_t one = ct_prf_class(c, k);
    if (isnan(one.f1)) continue;
    sum.precision += one.precision;
    sum.recall += one.recall;
    sum.f1 += one.f1;
    found++;
  }
  double n = found ? (double)found : NAN;
  return (ct_prf_t){sum.precision / n, sum.recall / n, sum.f1 / n};
}

static int by_score(const void *a, const void *b)
{
  float x = ((const ct_scored_t *)a)->score, y = ((const ct_scored_t *)b)->score;
  return (x > y) - (x < y);
}

double ct_auc(ct_scored_t *s, int64_t n)
{
  int64_t positives = 0, below = 0;
  double wins = 0; /* pairs in which the positive has the higher score; ties count half */
  for (int64_t i = 0; i < n; i++) {
    if (isnan(s[i].score)) return NAN;
    positives += s[i].positive;
  }
  qsort(s, (size_t)n, sizeof *s, by_score);
  for (int64_t i = 0, end; i < n; i = end) {
    int64_t yes = 0;
    for (end = i; end < n && s[end].score == s[i].score; end++)
      yes += s[end].positive;
    int64_t no = end - i - yes;
    wins += (double)yes * ((double)below + 0.5 * (double)no);
    below += no;
  }
  if (positives == 0 || positives == n) return NAN;
  return wins / (double)positives / (double)(n - positives);
}

double ct_r2(double residual, double total)
{
  if (total > 0) return 1 - residual / total;
  return residual > 0 ? 0 : 1;
}
