/* A maximum that starts at 0 and takes what is greater loses a NaN, one that takes what is not less
 * keeps it only if it comes last; here it is infinitely far away, which no later number changes. */
#include <math.h>

#include "tests/harness/ct_test.h"

static double distance(double got, double want)
{
  if (got == want) return 0; /* infinities too */
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
