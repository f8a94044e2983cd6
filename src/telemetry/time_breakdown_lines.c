/* Reports about the ranks of a run: a line per window, and a table of all ranks at the end.  All
 * ranks take part in gathering the time breakdown; only rank 0 evaluates and writes it. */
#include "telemetry/ct_time_breakdown_lines.h"

#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "telemetry/ct_stragglers.h"

struct ct__breakdown_lines {
  const ct_topo_t *topo;
  ct_metrics_t *metrics;
  ct_breakdown_t *breakdown;
  ct_stragglers_t *stragglers; /* rank 0; NULL: does not look for slow ranks */
  int64_t every;
  int64_t whole; /* number of samples in a whole batch, on which the search for slow ranks relies */
  int64_t from;  /* first step of this window; 0: no step yet */
};

int ct_breakdown_lines_open(const ct_topo_t *topo, int64_t every, const ct_sampler_t *sampler,
                            ct_metrics_t *m, ct_breakdown_lines_t **out)
{
  int rc = CT_OK;
  ct_breakdown_lines_t *a = ct_mem_alloc(sizeof *a, "the time breakdown of the run");
  *out = NULL;
  CT_TRY_ALL(topo, a ? CT_OK : CT_ERR_NOMEM);
  *a = (ct_breakdown_lines_t){.topo = topo, .metrics = m, .every = every};
  CT_TRY(ct_breakdown_open(topo, every, &a->breakdown));
  if (sampler && every && topo->size > 1) {
    a->whole = ct_sampler_batch(sampler, 0);
    CT_TRY_ALL(topo, ct_stragglers_open(topo, a->breakdown, every, sampler, &a->stragglers));
  }
  *out = a;
  a = NULL;
out:
  ct_breakdown_lines_close(a);
  return rc;
}

void ct_breakdown_lines_close(ct_breakdown_lines_t *a)
{
  if (!a) return;
  ct_stragglers_close(a->stragglers);
  ct_breakdown_close(a->breakdown);
  ct_mem_free(a);
}

/* Rank 0. */
static int window_lines(ct_breakdown_lines_t *a, int64_t step, const ct_breakdown_sum_t *window)
{
  int rc = CT_OK;
  CT_TRY(ct_stragglers_window(a->stragglers, a->from, step, a->metrics));
  if (!a->metrics || !window->steps) return CT_OK;
  ct_metrics_begin(a->metrics, "account");
  ct_metrics_int(a->metrics, "step", step);
  ct_metrics_json(a->metrics, NULL, ct_breakdown_json(window));
  CT_TRY(ct_metrics_end(a->metrics));
out:
  return rc;
}

int ct_breakdown_lines_step(ct_breakdown_lines_t *a, int64_t step, int64_t samples,
                            const ct_step_status_t *status, const ct_step_report_t *r)
{
  int rc = CT_OK;
  ct_breakdown_sum_t window;
  if (!a->from) {
    ct_breakdown_begin(a->breakdown);
    a->from = step;
  } else {
    ct_breakdown_step(a->breakdown, status, r);
    if (samples == a->whole) ct_breakdown_sample(a->breakdown, r);
  }
  if (a->every == 0 || step % a->every) return CT_OK;
  ct_breakdown_collect(a->breakdown, &window);
  if (a->topo->rank == 0) rc = window_lines(a, step, &window);
  a->from = step + 1;
  return rc;
}

void ct_breakdown_lines_total(const ct_breakdown_lines_t *a, ct_breakdown_sum_t *out)
{
  ct_breakdown_total(a->breakdown, out);
}

/* ---- ranks.csv ---- */

static int add_rank(const ct_breakdown_t *a, int r, ct_str_t *t)
{
  int rc = CT_OK;
  ct_breakdown_rank_t one = ct_breakdown_of_rank(a, r);
  CT_TRY(ct_str_add(t, "%d,%s,%d,%d,%lld,%.9g,%.9g,%.9g,%.9g", r, one.host, one.node,
                    one.local_rank, (long long)one.steps, one.step_s, one.busy_s, one.busy_sd_s,
                    one.busy_max_s));
  for (int k = 0; k < CT_TIME_KINDS; k++)
    CT_TRY(ct_str_add(t, ",%.9g", one.mean.s[k]));
  CT_TRY(one.offcpu_s < 0 ? ct_str_add(t, ",\n") : ct_str_add(t, ",%.9g\n", one.offcpu_s));
out:
  return rc;
}

static int write_ranks(const ct_breakdown_lines_t *a, const char *dir)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t t = {0};
  CT_TRY(ct_path_join(path, sizeof path, dir, "ranks.csv"));
  CT_TRY(ct_str_add(&t, "rank,host,node,local_rank,steps,step_s,busy_s,busy_sd_s,busy_max_s"));
  for (int k = 0; k < CT_TIME_KINDS; k++)
    CT_TRY(ct_str_add(&t, ",%s_s", ct_step_time_name(k)));
  CT_TRY(ct_str_add(&t, ",taken_s\n"));
  for (int r = 0; r < a->topo->size; r++)
    CT_TRY(add_rank(a->breakdown, r, &t));
  CT_TRY(ct_file_write(path, t.data, t.len));
out:
  ct_str_clear(&t);
  return rc;
}

/* ---- the log ---- */

static void log_total(const ct_breakdown_sum_t *s)
{
  char who[160] = "";
  if (2 * s->steady_s > s->imbalance_s)
    snprintf(who, sizeof who, " (mostly rank %d on %s, by %s)", s->slowest, s->slowest_host,
             ct_step_time_name(s->slowest_kind));
  ct_log(CT_LOG_INFO,
         "a step took %.3f ms: ranks were busy for %.3f, waited %.3f for the slowest%s, and %.3f "
         "for messages",
         1e3 * s->step_s, 1e3 * s->busy_s, 1e3 * s->imbalance_s, who, 1e3 * s->transfer_s);
  if (s->slowest_offcpu_s > 0.05 * s->step_s)
    ct_log(CT_LOG_WARN,
           "rank %d on %s was runnable but off-CPU %.0f%% of the time (core contention): look for "
           "other programs on its cores, or for ranks and threads that share cores",
           s->slowest, s->slowest_host, 100 * s->slowest_offcpu_s / s->step_s);
}

int ct_breakdown_lines_end(ct_breakdown_lines_t *a, const char *dir)
{
  ct_breakdown_sum_t sum;
  ct_breakdown_collect(a->breakdown, &sum);
  ct_breakdown_total(a->breakdown, &sum);
  if (a->topo->rank || !sum.steps) return CT_OK;
  if (sum.ranks > 1) log_total(&sum);
  ct_stragglers_summary(a->stragglers);
  return write_ranks(a, dir);
}
