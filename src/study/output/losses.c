/* Losses of efficiency as sentences: amount, cause and remedy of each term. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/output/report.h"

int ct__report_sizes(const ct_study_t *s, const ct_study_size_t **size, int cap)
{
  int n = 0;
  for (int i = 0; i < s->sizes && n < cap; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].rounds) size[n++] = &s->size[i];
  return n;
}

const ct_study_size_t *ct__report_largest(const ct_study_t *s)
{
  const ct_study_size_t *last = NULL;
  for (int i = 0; i < s->sizes; i++)
    if (s->size[i].kind == CT_STUDY_RUN && s->size[i].rounds) last = &s->size[i];
  return last;
}

/* Returns the remedy for a term. */
static const char *advice(int term)
{
  switch (term) {
  case CT_TERM_SMALL_BATCH:
    return "a larger data.batch, or fewer ranks with more threads each, so that each rank has more "
           "samples";
  case CT_TERM_SHARING:
    return "fewer ranks per node, ranks bound to cores (--bind-to core), or the clocks of a full "
           "node: see `doctor`";
  case CT_TERM_INTERFERENCE:
    return "one core of each rank left free for communication (OMP_NUM_THREADS one less)";
  case CT_TERM_SLOWER:
    return "measurements of one rank alone and of a node without communication: they separate a "
           "small batch from shared memory and clocks";
  case CT_TERM_DATA:
    return "more data.workers, data.stage or data.cache_dir, repacked files: `bench io` and "
           "`doctor CONFIG` measure reading";
  case CT_TERM_STEADY:
    return "`doctor` on that node (clocks, other programs, memory); leave it out of the job";
  case CT_TERM_RANDOM:
    return "--exclusive, ranks bound to cores, or one core left free: other programs or system "
           "services take cores now and then";
  case CT_TERM_LATENCY:
    return "larger buckets (parallel.bucket_mb), fewer ranks per node with more threads each";
  case CT_TERM_BANDWIDTH:
    return "more samples per rank, train.accumulate, gradients sent in bfloat16 "
           "(parallel.grad_dtype=bf16), a faster network";
  case CT_TERM_TRANSFER:
    return "`bench comm` to measure the network; other jobs may share its links";
  case CT_TERM_MOVE:
    return "fewer ranks per node, more threads each";
  case CT_TERM_BATCHNORM:
    return "batchnorm with statistics of each rank (no SyncBN), or a larger batch";
  case CT_TERM_UPDATE:
    return "parallel.zero, which divides the optimizer's work among the ranks";
  case CT_TERM_WORD:
    return "longer steps: more samples per rank, train.accumulate";
  case CT_TERM_SAVE:
    return "fewer checkpoints (checkpoint.every_steps)";
  default:
    return "a larger run.log_every";
  }
}

/* Returns 1 for a loss that other programs cause by running on the cores of the ranks. */
static int is_of_cores(int term)
{
  return term == CT_TERM_RANDOM || term == CT_TERM_SLOWER || term == CT_TERM_SHARING ||
         term == CT_TERM_INTERFERENCE;
}

/* Writes the rank or programs that the time breakdown names as the cause; "" if none. */
static void culprit(const ct_study_size_t *z, int term, char *buf, size_t cap)
{
  const ct_study_breakdown_t *a = &z->breakdown;
  double step = a->mean.step_s > 0 ? a->mean.step_s : INFINITY;
  double share = a->offcpu_s / step, of_slowest = a->slowest_offcpu_s / step;
  *buf = '\0';
  if (is_of_cores(term) && share > 0.05)
    snprintf(buf, cap, ": the ranks were off-CPU for %.0f %% of the time (core contention)",
             100 * share);
  if (term == CT_TERM_STEADY && a->slowest >= 0)
    snprintf(buf, cap, ": rank %d%s%s%s%s", a->slowest, *a->slowest_host ? " on " : "",
             a->slowest_host, *a->slowest_kind ? ", which spends its time in " : "",
             a->slowest_kind);
  size_t n = strlen(buf);
  if (term == CT_TERM_STEADY && n && of_slowest > 0.05)
    snprintf(buf + n, cap - n, "; it was off-CPU for %.0f %% of the time (core contention)",
             100 * of_slowest);
}

int ct__report_losses(const ct_report_t *r, const ct_study_size_t *size,
                      ct__loss_t loss[CT__LOSSES])
{
  ct_terms_t t = ct_scaling_terms(r->study, r->model, size);
  double step = size->breakdown.mean.step_s;
  int n = 0;
  while (n < CT__LOSSES) {
    int term = ct_terms_largest(&t);
    char who[240];
    if (term < 0 || t.s[term] < 0.01 * step) break;
    loss[n].term = term;
    loss[n].share = t.s[term] / step;
    culprit(size, term, who, sizeof who);
    snprintf(loss[n].words, CT__WORDS, "%.1f %% (%.4g ms per step) %s%s.  Try: %s.",
             100 * loss[n].share, 1e3 * t.s[term], ct_term_help(term), who,
             advice(is_of_cores(term) && *who ? CT_TERM_RANDOM : term));
    t.s[term] = 0;
    n++;
  }
  return n;
}

/* Writes the sum of losses and gains.  Terms below zero are gains: losses minus gains are the time
 * that is lost. */
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
  double step = size->breakdown.mean.step_s, lost = step - t.s[CT_TERM_IDEAL];
  if (step <= 0)
    snprintf(buf, cap, "The time breakdown at %d ranks was not measured.", size->ranks);
  else if (lost >= 0)
    snprintf(buf, cap, "At %d rank%s %.1f %% of the time is lost.", size->ranks,
             size->ranks == 1 ? "" : "s", 100 * lost / step);
  else
    snprintf(
        buf, cap,
        "At %d ranks steps are %.1f %% shorter than at the efficiency of the base configuration.",
        size->ranks, -100 * lost / step);
  if (step > 0) add_gains(&t, step, buf, cap);
}
