/* Names, descriptions, sum and maximum of the terms of a step. */
#include <stdio.h>

#include "study/model/ct_scaling.h"

static const struct {
  const char *name, *help;
} terms[CT_TERMS] = {
#define ROW(upper, lower, help) {#lower, help},
    CT_TERM_LIST(ROW)
#undef ROW
};

const char *ct_term_name(int term)
{
  return term >= 0 && term < CT_TERMS ? terms[term].name : "nothing";
}

const char *ct_term_help(int term)
{
  return term >= 0 && term < CT_TERMS ? terms[term].help : "";
}

double ct_terms_all(const ct_terms_t *t)
{
  double sum = 0;
  for (int i = 0; i < CT_TERMS; i++)
    sum += t->s[i];
  return sum;
}

int ct_terms_largest(const ct_terms_t *t)
{
  int best = -1;
  for (int i = CT_TERM_IDEAL + 1; i < CT_TERMS; i++)
    if (t->s[i] > (best < 0 ? 0 : t->s[best])) best = i;
  return best;
}

void ct_terms_loss(const ct_terms_t *t, double step_s, char *buf, size_t cap)
{
  int most = ct_terms_largest(t);
  double gains_s = 0;
  *buf = '\0';
  if (most < 0 || step_s <= 0) return;
  for (int i = 0; i < CT_TERMS; i++)
    if (i != CT_TERM_IDEAL && t->s[i] < 0) gains_s -= t->s[i];
  int n = snprintf(buf, cap, "%s %.1f", ct_term_name(most), 100 * t->s[most] / step_s);
  if (gains_s >= 0.0005 * step_s && n > 0 && (size_t)n < cap)
    snprintf(buf + n, cap - (size_t)n, " -%.1f", 100 * gains_s / step_s);
}
