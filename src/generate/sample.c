/* Temperature, top-k and top-p, and a draw by a counter-based random number. */
#include "generate/ct_sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/ct_rng.h"

/* While candidates are chosen, p holds their logits. */
static int more_likely(const void *a, const void *b)
{
  const ct_candidate_t *x = a, *y = b;
  if (x->p != y->p) return x->p > y->p ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static int64_t highest(const float *logits, int64_t vocab)
{
  int64_t best = 0;
  for (int64_t i = 1; i < vocab; i++)
    if (logits[i] > logits[best] || (isnan(logits[best]) && !isnan(logits[i]))) best = i;
  return best;
}

static double logit_of(float v)
{
  return isnan(v) ? -INFINITY : (double)v;
}

/* Moves the k highest candidates to the front, in no order: quickselect. */
static void select_top(ct_candidate_t *c, int64_t n, int64_t k)
{
  int64_t lo = 0, hi = n - 1;
  while (lo < hi) {
    ct_candidate_t pivot = c[lo + (hi - lo) / 2], t;
    int64_t i = lo, j = hi;
    while (i <= j) {
      while (more_likely(&c[i], &pivot) < 0)
        i++;
      while (more_likely(&pivot, &c[j]) < 0)
        j--;
      if (i > j) break;
      t = c[i];
      c[i++] = c[j];
      c[j--] = t;
    }
    if (k - 1 <= j)
      hi = j;
    else if (k - 1 >= i)
      lo = i;
    else
      break;
  }
}

/* Keeps the k highest logits and those equal to the k-th; returns how many they are. */
static int64_t keep_top_k(ct_candidate_t *c, int64_t n, int64_t k)
{
  if (k <= 0 || k >= n) return n;
  select_top(c, n, k);
  double least = INFINITY;
  int64_t kept = k;
  for (int64_t i = 0; i < k; i++)
    least = fmin(least, c[i].p);
  for (int64_t i = k; i < n; i++)
    if (c[i].p == least) {
      ct_candidate_t t = c[kept];
      c[kept++] = c[i];
      c[i] = t;
    }
  return kept;
}

/* Turns logits into probabilities. */
static void to_probabilities(ct_candidate_t *c, int64_t n)
{
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++)
    most = fmax(most, c[i].p);
  for (int64_t i = 0; i < n; i++)
    sum += c[i].p = most == -INFINITY ? 1 : exp(c[i].p - most);
  for (int64_t i = 0; i < n; i++)
    c[i].p /= sum;
}

/* Keeps the smallest set of the highest probabilities whose sum is at least p, sorted; returns its
 * size.  Mostly few are enough, so it sorts more and more of them. */
static int64_t keep_top_p(ct_candidate_t *c, int64_t n, double p)
{
  for (int64_t sorted = 64;; sorted *= 8) {
    double sum = 0;
    if (sorted > n) sorted = n;
    if (sorted < n) select_top(c, n, sorted);
    qsort(c, (size_t)sorted, sizeof *c, more_likely);
    int64_t kept = 0;
    while (kept < sorted && (kept == 0 || sum < p))
      sum += c[kept++].p;
    if (sum < p && sorted < n) continue;
    for (int64_t i = 0; i < kept; i++)
      c[i].p /= sum;
    return kept;
  }
}

int64_t ct_sample_filter(const ct_sample_opts_t *o, const float *logits, int64_t vocab,
                         ct_candidate_t *c)
{
  if (o->temperature <= 0) {
    c[0] = (ct_candidate_t){highest(logits, vocab), 1};
    return 1;
  }
  for (int64_t i = 0; i < vocab; i++)
    c[i] = (ct_candidate_t){i, logit_of(logits[i]) / o->temperature};
  int64_t n = keep_top_k(c, vocab, o->top_k);
  to_probabilities(c, n);
  if (o->top_p < 1) return keep_top_p(c, n, o->top_p);
  if (n < vocab) qsort(c, (size_t)n, sizeof *c, more_likely);
  return n;
}

int64_t ct_sample(const ct_sample_opts_t *o, const float *logits, int64_t vocab, uint32_t sequence,
                  int64_t position, ct_candidate_t *c)
{
  if (o->temperature <= 0) return highest(logits, vocab);
  int64_t n = ct_sample_filter(o, logits, vocab, c);
  uint64_t bits = ct_rng_u64(o->seed, CT_RNG_GENERATE, sequence, (uint64_t)position);
  double u = (double)(bits >> 11) * 0x1p-53, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += c[i].p;
    if (u < sum) return c[i].id;
  }
  return c[n - 1].id;
}
