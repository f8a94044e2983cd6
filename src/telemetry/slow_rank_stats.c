/* Who is slow, told from noise. Times of steps have outliers (a page fault, a checkpoint's write):
 * means are trimmed, and a rank is slow only by more than the error of its mean and the spread of
 * the ranks. */
#include "telemetry/slow_rank_stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/ct_clock.h"

/* ---- one rank ---- */

void ct__pace_begin(ct__pace_window_t *w, int64_t steps)
{
  w->stride = (steps - 1) / CT_PACE_STEPS + 1;
  w->seen = 0;
  w->n = 0;
}

void ct__pace_add(ct__pace_window_t *w, double busy_s, double data_s)
{
  if (w->seen++ % w->stride != 0 || w->n == CT_PACE_STEPS) return;
  w->busy_s[w->n] = busy_s;
  w->data_s[w->n++] = data_s;
}

typedef struct step {
  double busy_s, data_s;
} step_t;

static int ascending(const void *a, const void *b)
{
  const double *x = a, *y = b; /* busy_s is a step's first member */
  return (*x > *y) - (*x < *y);
}

/* Of n steps in ascending order, the standard error of the mean of [cut, n - cut).  Those cut off
 * count as their neighbours that are not. */
static double error_of(const step_t *s, int n, int cut, double mean)
{
  double squares = 0;
  if (n < 2) return INFINITY;
  for (int i = 0; i < n; i++) {
    int at = i < cut ? cut : i >= n - cut ? n - cut - 1 : i;
    squares += (s[at].busy_s - mean) * (s[at].busy_s - mean);
  }
  return sqrt(squares / (n - 1)) * sqrt(n) / (n - 2 * cut);
}

ct__pace_t ct__pace_of(const ct__pace_window_t *w)
{
  step_t s[CT_PACE_STEPS];
  ct__pace_t p = {0};
  int n = w->n, cut = n < 3 ? 0 : n < 10 ? 1 : n / 10;
  for (int i = 0; i < n; i++)
    s[i] = (step_t){w->busy_s[i], w->data_s[i]};
  qsort(s, (size_t)n, sizeof *s, ascending);
  for (int i = cut; i < n - cut; i++) {
    p.busy_s += s[i].busy_s / (n - 2 * cut);
    p.data_s += s[i].data_s / (n - 2 * cut);
  }
  p.error_s = error_of(s, n, cut, p.busy_s);
  return p;
}

/* ---- all ranks ---- */

static ct__pace_t medians(const ct__pace_t *pace, int ranks, double *work)
{
  ct__pace_t m = {0};
  for (int r = 0; r < ranks; r++)
    work[r] = pace[r].data_s;
  m.data_s = ct_clock_lower_median(work, ranks);
  for (int r = 0; r < ranks; r++)
    work[r] = pace[r].busy_s;
  m.busy_s = ct_clock_lower_median(work, ranks);
  for (int r = 0; r < ranks; r++)
    work[r] = pace[r].error_s;
  m.error_s = ct_clock_lower_median(work, ranks);
  return m;
}

/* Standard deviation over the ranks, of which a part may be anything. */
static double spread(const ct__pace_t *pace, int ranks, double middle, double *work)
{
  for (int r = 0; r < ranks; r++)
    work[r] = fabs(pace[r].busy_s - middle);
  return 1.4826 * ct_clock_lower_median(work, ranks); /* of a normal distribution */
}

void ct__pace_judge(const ct__pace_t *pace, const double *share, int ranks, double *work, int *slow,
                    ct__pace_t *usual)
{
  enum { MANY = 8 };
  *usual = medians(pace, ranks, work);
  double margin = fmax(1e-3, (ranks < MANY ? 0.25 : 0.1) * usual->busy_s);
  if (ranks >= MANY) margin = fmax(margin, 4 * spread(pace, ranks, usual->busy_s, work));
  for (int r = 0; r < ranks; r++) {
    double above = pace[r].busy_s - share[r] * usual->busy_s;
    slow[r] = above > fmax(margin, 4 * pace[r].error_s);
  }
}

int ct__pace_is_data(const ct__pace_t *slow, const ct__pace_t *usual)
{
  double data = slow->data_s - usual->data_s;
  return data > slow->busy_s - usual->busy_s - data;
}
