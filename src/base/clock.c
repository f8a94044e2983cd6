/* Reads seconds from the monotonic clock, since the wall clock jumps when it is set.  The time
 * since exec() includes the time that the loader and MPI took before main(). */
#include "base/ct_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t id)
{
  struct timespec t;
  return clock_gettime(id, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

double ct_clock(void)
{
  return seconds(CLOCK_MONOTONIC);
}

double ct_clock_since_exec(void)
{
  enum { SKIP = 19 }; /* fields between the command's closing parenthesis and starttime: proc(5) */
  char text[1024];
  FILE *f = fopen("/proc/self/stat", "r");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = '\0';
  char *field = strrchr(text, ')'); /* the command itself may contain blanks and parentheses */
  for (int i = 0; field && i <= SKIP; i++)
    field = strchr(field + 1, ' ');
  unsigned long long ticks;
  long per_second = sysconf(_SC_CLK_TCK);
  if (!field || per_second <= 0 || sscanf(field, "%llu", &ticks) != 1) return 0;
  double since = seconds(CLOCK_BOOTTIME) - (double)ticks / (double)per_second;
  return since > 0 ? since : 0;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double ct_clock_lower_median(double *s, int n)
{
  qsort(s, (size_t)n, sizeof *s, ascending);
  return s[(n - 1) / 2];
}

double ct_clock_median(double *s, int n)
{
  double lower = ct_clock_lower_median(s, n);
  return 0.5 * (lower + s[n / 2]);
}
