/* Distinguishes slow ranks from noise.  Step times have outliers (a page fault, the write of a
 * checkpoint), so means are trimmed, and a rank is slow only if it exceeds both the error of its
 * mean and the spread of the ranks. */
#include "telemetry/slow_rank_stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/ct_clock.h"

/* ---- one rank ---- */

void ct__slow_stats_begin(ct__slow_stats_window_t *w, int64_t steps)
{
  w->stride = (steps - 1) / CT_SLOW_STATS_STEPS + 1;
  w->seen = 0;
  w->n = 0;
}

void ct__slow_stats_add(ct__slow_stats_window_t *w, double busy_s, double data_s)
{
  if (w->seen++ % w->stride != 0 || w->n == CT_SLOW_STATS_STEPS) return;
  w->step[w->n++] = (struct ct__slow_stats_step){busy_s, data_s};
}

static int by_busy_time(const void *a, const void *b)
{
  const struct ct__slow_stats_step *x = a, *y = b;
  return (x->busy_s > y->busy_s) - (x->busy_s < y->busy_s);
}

ct__slow_stats_t ct__slow_stats_of(ct__slow_stats_window_t *w)
{
  struct ct__slow_stats_step *s = w->step;
  ct__slow_stats_t p = {.error_s = INFINITY};
  int n = w->n, cut = n < 3 ? 0 : n < 10 ? 1 : n / 10, kept = n - 2 * cut;
  double squares = 0;
  qsort(s, (size_t)n, sizeof *s, by_busy_time);
  for (int i = cut; i < n - cut; i++) {
    p.busy_s += s[i].busy_s / kept;
    p.data_s += s[i].data_s / kept;
  }
  if (n < 2) return p;
  for (int i = 0; i < n; i++) { /* steps that are cut off count as their nearest kept neighbour */
    double off = s[i < cut ? cut : i >= n - cut ? n - cut - 1 : i].busy_s - p.busy_s;
    squares += off * off;
  }
  p.error_s = sqrt(squares / (n - 1)) * sqrt(n) / kept;
  return p;
}

/* ---- all ranks ---- */

void ct__slow_stats_judge(ct__slow_stats_rank_t *rank, int ranks, double *work,
                          ct__slow_stats_t *usual)
{
  enum { MANY = 8 };
  const double normal = 1.4826; /* standard deviation / median deviation of a normal distribution */
  for (int r = 0; r < ranks; r++)
    work[r] = rank[r].stats.data_s;
  usual->data_s = ct_clock_lower_median(work, ranks);
  for (int r = 0; r < ranks; r++)
    work[r] = rank[r].stats.error_s;
  usual->error_s = ct_clock_lower_median(work, ranks);
  for (int r = 0; r < ranks; r++)
    work[r] = rank[r].stats.busy_s;
  usual->busy_s = ct_clock_lower_median(work, ranks);
  double margin = fmax(1e-3, (ranks < MANY ? 0.25 : 0.1) * usual->busy_s);
  for (int r = 0; r < ranks; r++)
    work[r] = fabs(rank[r].stats.busy_s - usual->busy_s);
  if (ranks >= MANY) margin = fmax(margin, 4 * normal * ct_clock_lower_median(work, ranks));
  for (int r = 0; r < ranks; r++) {
    double above = rank[r].stats.busy_s - rank[r].share * usual->busy_s;
    rank[r].slow = above > fmax(margin, 4 * rank[r].stats.error_s);
  }
}

int ct__slow_stats_is_data(const ct__slow_stats_t *slow, const ct__slow_stats_t *usual)
{
  double data = slow->data_s - usual->data_s;
  return data > slow->busy_s - usual->busy_s - data;
}
