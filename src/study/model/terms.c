/* Splits the step of a configuration into terms that add up to the step, relative to the base
 * configuration: from the kinds of time that the ranks measured, and from configurations without
 * communication. */
#include <math.h>

#include "study/model/ct_scaling.h"

/* Splits the excess of compute over the ideal by cause, as far as configurations without
 * communication (CT_STUDY_ALONE, CT_STUDY_NEIGHBOURS) were measured. */
static void split_compute(const ct_study_t *s, const ct_study_size_t *size, double ideal_s,
                          double compute_s, ct_terms_t *t)
{
  const ct_study_size_t *alone = ct_study_beside(s, size, CT_STUDY_ALONE),
                        *near = ct_study_beside(s, size, CT_STUDY_NEIGHBOURS);
  double known = ideal_s;
  if (alone && alone->breakdown.steps) {
    double alone_s = alone->breakdown.mean.kinds.s[CT_TIME_COMPUTE];
    t->s[CT_TERM_SMALL_BATCH] = alone_s - known;
    known = alone_s;
  }
  if (near && near->breakdown.steps) {
    double near_s = near->breakdown.mean.kinds.s[CT_TIME_COMPUTE];
    t->s[CT_TERM_SHARING] = near_s - known;
    known = near_s;
  }
  int why = near ? CT_TERM_INTERFERENCE : CT_TERM_SLOWER;
  t->s[why] = compute_s - known;
}

/* Splits the transfer time among gradients, batchnorms and the step status, in proportion to the
 * times that ranks waited for each. */
static void split_transfer(const ct_study_means_t *mean, double less, ct_terms_t *t)
{
  const double *k = mean->kinds.s;
  double all = k[CT_TIME_WAIT] + k[CT_TIME_BATCHNORM] + k[CT_TIME_WORD],
         factor = all > 0 ? 1 / all : 0, left = mean->transfer_s - less;
  t->s[CT_TERM_BATCHNORM] = left * k[CT_TIME_BATCHNORM] * factor;
  t->s[CT_TERM_WORD] = left * k[CT_TIME_WORD] * factor;
  t->s[CT_TERM_TRANSFER] = left - t->s[CT_TERM_BATCHNORM] - t->s[CT_TERM_WORD];
}

/* Moves the latency and bandwidth that the model predicts from TRANSFER to their own terms; moves
 * at most the whole TRANSFER. */
static void split_messages(const ct_scaling_t *m, const ct_study_size_t *size, ct_terms_t *t)
{
  ct_scaling_prediction_t p;
  ct_scaling_ask_t ask = {
      .ranks = size->ranks, .local_ranks = size->local_ranks, .local_batch = size->local_batch};
  double left = t->s[CT_TERM_TRANSFER];
  if (left <= 0 || size->ranks < 2 || ct_scaling_predict(m, &ask, &p) != 0) return;
  double bytes = p.terms.s[CT_TERM_BANDWIDTH], latency = p.terms.s[CT_TERM_LATENCY];
  double factor = bytes + latency > left ? left / (bytes + latency) : 1;
  t->s[CT_TERM_BANDWIDTH] = factor * bytes;
  t->s[CT_TERM_LATENCY] = factor * latency;
  t->s[CT_TERM_TRANSFER] = left - factor * (bytes + latency);
}

ct_terms_t ct_scaling_terms(const ct_study_t *s, const ct_scaling_t *m, const ct_study_size_t *size)
{
  static const int own[][2] = {{CT_TIME_DATA, CT_TERM_DATA},
                               {CT_TIME_MOVE, CT_TERM_MOVE},
                               {CT_TIME_UPDATE, CT_TERM_UPDATE},
                               {CT_TIME_SAVE, CT_TERM_SAVE},
                               {CT_TIME_OTHER, CT_TERM_OTHER}};
  ct_terms_t t = {{0}};
  const ct_study_size_t *base = ct_study_base(s);
  const ct_study_means_t *mean = &size->breakdown.mean;
  if (!base || !base->breakdown.steps || !size->breakdown.steps) return t;
  double ratio = ct_study_ideal(base, size, 1);
  const ct_study_means_t *b = &base->breakdown.mean;
  t.s[CT_TERM_IDEAL] = ratio * b->step_s;
  split_compute(s, size, ratio * b->kinds.s[CT_TIME_COMPUTE], mean->kinds.s[CT_TIME_COMPUTE], &t);
  for (int i = 0; i < 5; i++)
    t.s[own[i][1]] = mean->kinds.s[own[i][0]] - ratio * b->kinds.s[own[i][0]];
  t.s[CT_TERM_STEADY] = mean->steady_s - ratio * b->steady_s;
  t.s[CT_TERM_RANDOM] = mean->random_s - ratio * b->random_s;
  split_transfer(mean, ratio * b->transfer_s, &t);
  if (m) split_messages(m, size, &t);
  return t;
}
