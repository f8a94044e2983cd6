/* Names and sums of the kinds of time in a step. */
#include "base/ct_step_times.h"

#define ROW(upper, lower, own) {#lower, own},
static const struct {
  const char *name;
  int own;
} kinds[] = {CT_STEP_TIME_LIST(ROW)};

const char *ct_step_time_name(int kind)
{
  return kinds[kind].name;
}

int ct_step_time_is_own(int kind)
{
  return kinds[kind].own;
}

double ct_step_times_busy(const ct_step_times_t *t)
{
  double sum = 0;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    sum += kinds[k].own ? t->s[k] : 0;
  return sum;
}

double ct_step_times_all(const ct_step_times_t *t)
{
  double sum = 0;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    sum += t->s[k];
  return sum;
}
