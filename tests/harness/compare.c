/* Comparison of arrays that does not lose NaN. A running maximum with `>` ignores NaN, and one with
 * `!(<=)` keeps it only if it comes last.  Here a NaN counts as an infinite difference. */
#include <math.h>

#include "tests/harness/ct_test.h"

static double distance(double got, double want)
{
  if (got == want) return 0; /* equal, also for infinities */
  return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

static void take(ct_test_off_t *off, double distance, int64_t i)
{
  if (distance > off->most) *off = (ct_test_off_t){distance, i};
}

ct_test_off_t ct_test_off(const float *got, const float *want, int64_t n)
{
  ct_test_off_t off = {0, -1};
  for (int64_t i = 0; i < n; i++)
    take(&off, distance(got[i], want[i]), i);
  return off;
}

ct_test_off_t ct_test_off_double(const double *got, const double *want, int64_t n)
{
  ct_test_off_t off = {0, -1};
  for (int64_t i = 0; i < n; i++)
    take(&off, distance(got[i], want[i]), i);
  return off;
}

ct_test_off_t ct_test_off_rel(const float *got, const float *want, int64_t n)
{
  ct_test_off_t off = {0, -1};
  for (int64_t i = 0; i < n; i++) {
    double size = isfinite(want[i]) ? fmax(fabs(want[i]), 1) : 1;
    take(&off, distance(got[i], want[i]) / size, i);
  }
  return off;
}
