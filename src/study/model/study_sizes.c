/* Medians with intervals, and the efficiency of a configuration relative to the base, paired by
 * rounds. */
#include <math.h>

#include "base/ct_clock.h"
#include "study/model/ct_study.h"

/* Returns the probability that fewer than k of n samples are below the median; k >= 1. */
static double tail(int n, int k)
{
  double sum = 0;
  for (int i = 0; i < k; i++)
    sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * M_LN2);
  return sum;
}

ct_study_ratio_t ct_study_median(double *v, int n)
{
  ct_study_ratio_t m = {0};
  int k = 1;
  if (n < 1) return m;
  m.median = ct_clock_median(v, n); /* sorts */
  while (2 * (k + 1) <= n && 1 - 2 * tail(n, k + 1) >= 0.95)
    k++;
  m.low = v[k - 1];
  m.high = v[n - k];
  m.covers = n > 1 ? 1 - 2 * tail(n, k) : 0;
  return m;
}

const ct_study_size_t *ct_study_base(const ct_study_t *s)
{
  for (int i = 0; i < s->sizes; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].rounds) return &s->size[i];
  return NULL;
}

int ct_study_is_weak(const ct_study_t *s)
{
  const ct_study_size_t *base = ct_study_base(s);
  for (int i = 0; base && i < s->sizes; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].rounds &&
        fabs(s->size[i].local_batch - base->local_batch) > 1e-6 * base->local_batch)
      return 0;
  return 1;
}

double ct_study_ideal(const ct_study_size_t *base, const ct_study_size_t *size, double base_s)
{
  return base_s * size->batch / base->batch * base->ranks / size->ranks;
}

double ct_study_rate(const ct_study_size_t *size, double step_s)
{
  return step_s > 0 ? size->batch / step_s : 0;
}

const ct_study_size_t *ct_study_beside(const ct_study_t *s, const ct_study_size_t *size, int kind)
{
  for (int i = 0; i < s->sizes; i++) {
    const ct_study_size_t *z = &s->size[i];
    if (z->kind != kind || !z->rounds || z->threads != size->threads) continue;
    if (fabs(z->local_batch - size->local_batch) > 1e-6 * size->local_batch) continue;
    if (kind == CT_STUDY_ALONE || z->local_ranks == size->local_ranks) return z;
  }
  return NULL;
}

ct_study_ratio_t ct_study_efficiency(const ct_study_size_t *base, const ct_study_size_t *size)
{
  double ratio[CT_STUDY_ROUNDS];
  int n = 0;
  for (int i = 0; i < size->rounds; i++)
    for (int k = 0; k < base->rounds; k++)
      if (size->round[i] == base->round[k] && n < CT_STUDY_ROUNDS)
        ratio[n++] = ct_study_ideal(base, size, base->round_s[k]) / size->round_s[i];
  if (n) return ct_study_median(ratio, n);
  double e = ct_study_ideal(base, size, base->median_s) / size->median_s;
  return (ct_study_ratio_t){e, e, e, 0};
}
