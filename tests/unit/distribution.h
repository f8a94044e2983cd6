/** \file distribution.h  Whether what was drawn has the distribution that it should have, for
 * tests.
 *
 * For draws that are the same at every run: the bounds are wide enough not to fail a right
 * distribution by chance, and once they hold they always do. */
#ifndef DISTRIBUTION_H
#define DISTRIBUTION_H
#include <math.h>
#include <stdio.h>

#include "tests/harness/ct_test.h"

/* Classes that are equally likely: chi-square below what less than one of a million right
 * distributions exceeds, and none is empty. */
static inline void expect_even(const char *what, const int *count, int n)
{
  double all = 0, chi = 0;
  int empty = 0;
  for (int i = 0; i < n; i++)
    all += count[i];
  for (int i = 0; i < n; i++) {
    chi += pow(count[i] - all / n, 2) / (all / n);
    empty += count[i] == 0;
  }
  int even = chi <= n + 6 * sqrt(2.0 * n) + 12 && empty == 0;
  if (!even) printf("# %s: chi-square of %d classes is %g, %d are empty\n", what, n, chi, empty);
  CU_ASSERT(even);
}

/* Values that are uniform from lo to hi, and come near both; slack: what they were rounded by. */
static inline void expect_uniform(const char *what, const double *v, int n, double lo, double hi,
                                  double slack)
{
  enum { CLASSES = 16 };
  int count[CLASSES] = {0}, outside = 0;
  double least = hi, most = lo, near = 12 * (hi - lo) / n + slack;
  for (int i = 0; i < n; i++) {
    if (!(v[i] >= lo - slack && v[i] <= hi + slack)) { /* NaN, too */
      outside++;
      continue;
    }
    int k = (int)(CLASSES * (v[i] - lo) / (hi - lo));
    count[k < 0 ? 0 : k < CLASSES ? k : CLASSES - 1]++;
    least = v[i] < least ? v[i] : least;
    most = v[i] > most ? v[i] : most;
  }
  int right = outside == 0 && least <= lo + near && most >= hi - near;
  if (!right)
    printf("# %s: from %g to %g, %d outside of %g to %g\n", what, least, most, outside, lo, hi);
  CU_ASSERT(right);
  expect_even(what, count, CLASSES);
}

/* What happens with probability p came so often in n times. */
static inline void expect_share(const char *what, int count, int n, double p)
{
  int right = fabs(count - n * p) <= 5 * sqrt(n * p * (1 - p));
  if (!right) printf("# %s: %d of %d, expected %g\n", what, count, n, n * p);
  CU_ASSERT(right);
}

#endif
