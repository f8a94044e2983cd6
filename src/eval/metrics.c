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
  ct_class_count_t n = ct_confusion_class(c, label);
  if (n.labelled + n.predicted == 0) return (ct_prf_t){NAN, NAN, NAN};
  return (ct_prf_t){ratio(n.right, n.predicted), ratio(n.right, n.labelled),
                    ratio(2 * n.right, n.labelled + n.predicted)};
}

ct_prf_t ct_prf_macro(const ct_confusion_t *c)
{
  ct_prf_t sum = {0};
  int64_t found = 0;
  for (int64_t k = 0; k < c->classes; k++) {
    ct_prf_t one = ct_prf_class(c, k);
    found += c->set ? c->wholes > 0 : !isnan(one.f1);
    if (isnan(one.f1)) continue;
    sum.precision += one.precision;
    sum.recall += one.recall;
    sum.f1 += one.f1;
  }
  double n = found ? (double)found : NAN;
  return (ct_prf_t){sum.precision / n, sum.recall / n, sum.f1 / n};
}

double ct_class_mean(const ct_confusion_t *c, double (*of)(const ct_class_count_t *n))
{
  double sum = 0;
  int64_t found = 0;
  for (int64_t k = 0; k < c->classes; k++) {
    ct_class_count_t n = ct_confusion_class(c, k);
    double one = of(&n);
    if (isnan(one)) continue;
    sum += one;
    found++;
  }
  return found ? sum / (double)found : NAN;
}

double ct_f1_micro(const ct_confusion_t *c)
{
  int64_t right = 0, sizes = 0;
  for (int64_t k = 0; k < c->classes; k++) {
    ct_class_count_t n = ct_confusion_class(c, k);
    right += n.right;
    sizes += n.labelled + n.predicted;
  }
  return c->wholes ? ratio(2 * right, sizes) : NAN;
}

double ct_subset_accuracy(const ct_confusion_t *c)
{
  return c->wholes ? ratio(c->whole, c->wholes) : NAN;
}

double ct_class_accuracy(const ct_class_count_t *n)
{
  return n->seen ? ratio(n->seen - n->labelled - n->predicted + 2 * n->right, n->seen) : NAN;
}

double ct_label_accuracy(const ct_confusion_t *c)
{
  return ct_class_mean(c, ct_class_accuracy);
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

double ct_average_precision(ct_scored_t *s, int64_t n)
{
  int64_t positives = 0, above = 0, found = 0;
  double sum = 0; /* of precision times new positives */
  for (int64_t i = 0; i < n; i++) {
    if (isnan(s[i].score)) return NAN;
    positives += s[i].positive;
  }
  qsort(s, (size_t)n, sizeof *s, by_score);
  for (int64_t i = n; i > 0;) { /* from the highest score down; equal scores are one threshold */
    float score = s[i - 1].score;
    int64_t yes = 0;
    for (; i > 0 && s[i - 1].score == score; i--, above++)
      yes += s[i - 1].positive;
    found += yes;
    sum += (double)yes * ratio(found, above);
  }
  return positives ? sum / (double)positives : NAN;
}

double ct_r2(double residual, double total)
{
  if (total > 0) return 1 - residual / total;
  return residual > 0 ? 0 : 1;
}
