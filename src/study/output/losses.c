/* Losses in words: what each term of a size says to who has to do something about it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/output/report.h"

int ct__report_sizes(const ct_study_t *s, const ct_study_size_t **size, int cap)
{
  int n = 0;
  for (int i = 0; i < s->sizes && n < cap; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].blocks) size[n++] = &s->size[i];
  return n;
}

const ct_study_size_t *ct__report_largest(const ct_study_t *s)
{
  const ct_study_size_t *last = NULL;
  for (int i = 0; i < s->sizes; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].blocks) last = &s->size[i];
  return last;
}

/* What to try; by term. */
static const char *advice(int term)
{
  switch (term) {
  case CT_TERM_SMALL_BATCH:
    return "a larger data.batch, or more threads and fewer ranks, gives each rank more to do at "
           "once";
  case CT_TERM_SHARING:
    return "fewer ranks a node, ranks bound to cores (--bind-to core), or the clocks of a full "
           "node: see `doctor`";
  case CT_TERM_INTERFERENCE:
    return "one core of each rank left to messages (OMP_NUM_THREADS one less)";
  case CT_TERM_SLOWER:
    return "points of a rank alone and with neighbours but no messages would tell a small batch "
           "from shared memory and clocks";
  case CT_TERM_DATA:
    return "more data.workers, data.stage or data.cache_dir, files packed anew: `bench io` and "
           "`doctor CONFIG` measure reading";
  case CT_TERM_STEADY:
    return "`doctor` on that node (clocks, other programs, memory); leave it out of the job";
  case CT_TERM_RANDOM:
    return "other programs and the system's own work take cores now and then: --exclusive, ranks "
           "bound to cores, one core left free";
  case CT_TERM_LATENCY:
    return "larger buckets (parallel.bucket_mb), fewer ranks a node with more threads each";
  case CT_TERM_BANDWIDTH:
    return "more samples a rank, train.accumulate, gradients in bfloat16 on their way "
           "(parallel.grad_dtype=bf16), a faster network";
  case CT_TERM_TRANSFER:
    return "`bench comm` tells whether the network gives what it should; other jobs share its "
           "links";
  case CT_TERM_MOVE:
    return "fewer ranks a node, more threads each";
  case CT_TERM_BATCHNORM:
    return "batchnorms with the statistics of their own rank (no SyncBN), or a larger batch";
  case CT_TERM_UPDATE:
    return "parallel.zero shares the optimizer's work among the ranks";
  case CT_TERM_WORD:
    return "longer steps: more samples a rank, train.accumulate";
  case CT_TERM_SAVE:
    return "checkpoints less often (checkpoint.every_steps)";
  default:
    return "run.log_every larger";
  }
}

/* 1: a loss that programs beside the ranks bring about when they take the cores of several. */
static int is_of_cores(int term)
{
  return term == CT_TERM_RANDOM || term == CT_TERM_SLOWER || term == CT_TERM_SHARING ||
         term == CT_TERM_INTERFERENCE;
}

/* Whom or what the account names. */
static void culprit(const ct_study_size_t *z, int term, char *buf, size_t cap)
{
  const ct_study_account_t *a = &z->account;
  double step = a->mean.step_s > 0 ? a->mean.step_s : INFINITY;
  double share = a->taken_s / step, of_slowest = a->slowest_taken_s / step;
  *buf = '\0';
  if (is_of_cores(term) && share > 0.05)
    snprintf(buf, cap, ": others had the ranks' cores for %.0f %% of the time", 100 * share);
  if (term == CT_TERM_STEADY && a->slowest >= 0)
    snprintf(buf, cap, ": waiting for rank %d%s%s%s%s", a->slowest, *a->slowest_host ? " on " : "",
             a->slowest_host, *a->slowest_kind ? ", whose time goes into " : "", a->slowest_kind);
  size_t n = strlen(buf);
  if (term == CT_TERM_STEADY && n && of_slowest > 0.05)
    snprintf(buf + n, cap - n, "; others had its core for %.0f %% of the time", 100 * of_slowest);
}

int ct__report_losses(const ct_report_t *r, const ct_study_size_t *size,
                      ct__loss_t loss[CT__LOSSES])
{
  ct_terms_t t = ct_scaling_terms(r->study, r->model, size);
  double step = size->account.mean.step_s;
  int n = 0;
  while (n < CT__LOSSES) {
    int term = ct_terms_largest(&t);
    char who[240];
    if (term < 0 || t.s[term] < 0.01 * step) break;
    loss[n].term = term;
    loss[n].share = t.s[term] / step;
    culprit(size, term, who, sizeof who);
    snprintf(loss[n].words, CT__WORDS, "%.1f %% (%.4g ms a step) %s%s.  Try: %s.",
             100 * loss[n].share, 1e3 * t.s[term], ct_term_help(term), who,
             advice(is_of_cores(term) && *who ? CT_TERM_RANDOM : term));
    t.s[term] = 0;
    n++;
  }
  return n;
}

/* Terms below zero are gains: without them the losses are more than what is lost. */
static void add_gains(const ct_terms_t *t, double step, char *buf, size_t cap)
{
  double lost = 0, won = 0;
  for (int i = 0; i < CT_TERMS; i++) {
    if (i == CT_TERM_IDEAL) continue;
    lost += fmax(t->s[i], 0) / step;
    won += fmax(-t->s[i], 0) / step;
  }
  size_t n = strlen(buf);
  if (won < 0.0005) return;
  snprintf(buf + n, cap - n, "  Losses are %.1f %%, gains %.1f %%", 100 * lost, 100 * won);
  const char *before = ":";
  for (int i = 0; i < CT_TERMS; i++) {
    n = strlen(buf);
    if (i == CT_TERM_IDEAL || -t->s[i] < 0.0005 * step) continue;
    snprintf(buf + n, cap - n, "%s %s %.1f %%", before, ct_term_name(i), -100 * t->s[i] / step);
    before = ",";
  }
  n = strlen(buf);
  snprintf(buf + n, cap - n, ".");
}

void ct__report_sum(const ct_report_t *r, const ct_study_size_t *size, char *buf, size_t cap)
{
  ct_terms_t t = ct_scaling_terms(r->study, r->model, size);
  double step = size->account.mean.step_s, lost = step - t.s[CT_TERM_IDEAL];
  if (step <= 0)
    snprintf(buf, cap, "Of %d ranks there is no account.", size->ranks);
  else if (lost >= 0)
    snprintf(buf, cap, "At %d rank%s %.1f %% of the time is lost.", size->ranks,
             size->ranks == 1 ? "" : "s", 100 * lost / step);
  else
    snprintf(buf, cap, "At %d ranks steps are %.1f %% shorter than the base's share.", size->ranks,
             -100 * lost / step);
  if (step > 0) add_gains(&t, step, buf, cap);
}
