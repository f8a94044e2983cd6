/* The time breakdown of steps: sums that are divided only when they are read, so that windows of
 * different lengths add up to a run.  One gather per window gives rank 0 the sums of each rank. */
#include "telemetry/ct_time_breakdown.h"

#include <math.h>
#include <stdio.h>

#include "host/ct_host_cpu.h"
#include "base/ct_mem.h"
#include "telemetry/slow_rank_stats.h"

/* Sums over the steps of one rank. */
typedef struct own {
  ct_step_times_t sum, max;
  double busy, busy_squares, busy_max;
  double offcpu; /* seconds off-CPU; NAN: unknown */
  int64_t steps;
} own_t;

/* The record that a rank sends to rank 0 for a window. */
typedef struct record {
  own_t own;
  ct__slow_stats_t stats;
} record_t;

typedef struct where {
  char host[sizeof((ct_topo_t *)0)->host];
  int node, local_rank;
} where_t;

/* Sums over the steps of all ranks together; minima and maxima are those of single steps. */
typedef struct all {
  ct_breakdown_sum_t sum;
  double busy_max; /* sum of the largest busy time of each step */
} all_t;

struct ct_breakdown {
  const ct_topo_t *topo;
  own_t mine; /* this rank, this window */
  ct__slow_stats_window_t stats;
  int64_t window_steps;
  all_t window, total;
  double offcpu_at; /* ct_cpu_offcpu() at the beginning of the window */
  /* rank 0, by rank: */
  where_t *where;
  record_t *got, *sums; /* last window; all windows (its pace is unused) */
};

/* ---- open and close ---- */

static int open_arrays(ct_breakdown_t *a)
{
  static const char what[] = "the time breakdown of all ranks";
  int n = a->topo->size;
  if (a->topo->rank) return CT_OK;
  a->where = ct_mem_array(n, sizeof *a->where, what);
  a->got = ct_mem_array(n, sizeof *a->got, what);
  a->sums = ct_mem_array(n, sizeof *a->sums, what);
  return a->where && a->got && a->sums ? CT_OK : CT_ERR_NOMEM;
}

int ct_breakdown_open(const ct_topo_t *topo, int64_t window, ct_breakdown_t **out)
{
  int rc = CT_OK;
  where_t mine = {.node = topo->node_index, .local_rank = topo->local_rank};
  ct_breakdown_t *a = ct_mem_alloc(sizeof *a, "the time breakdown of steps");
  *out = NULL;
  CT_TRY_ALL(topo, a ? CT_OK : CT_ERR_NOMEM);
  *a = (ct_breakdown_t){.topo = topo, .window_steps = window};
  CT_TRY_ALL(topo, open_arrays(a));
  snprintf(mine.host, sizeof mine.host, "%s", topo->host);
  ct_agree_gather(topo, &mine, sizeof mine, a->where);
  ct__slow_stats_begin(&a->stats, window);
  ct_breakdown_begin(a);
  *out = a;
  a = NULL;
out:
  ct_breakdown_close(a);
  return rc;
}

void ct_breakdown_begin(ct_breakdown_t *a)
{
  a->offcpu_at = ct_cpu_offcpu("");
}

void ct_breakdown_close(ct_breakdown_t *a)
{
  if (!a) return;
  ct_mem_free(a->where);
  ct_mem_free(a->got);
  ct_mem_free(a->sums);
  ct_mem_free(a);
}

/* ---- sums ---- */

static void add_own(own_t *to, const own_t *more)
{
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    to->sum.s[k] += more->sum.s[k];
    to->max.s[k] = fmax(to->max.s[k], more->max.s[k]);
  }
  to->busy += more->busy;
  to->busy_squares += more->busy_squares;
  to->busy_max = fmax(to->busy_max, more->busy_max);
  to->offcpu += more->offcpu;
  to->steps += more->steps;
}

static void add_all(all_t *to, const all_t *more)
{
  ct_breakdown_sum_t *s = &to->sum;
  const ct_breakdown_sum_t *m = &more->sum;
  if (!m->steps) return;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    s->mean.s[k] += m->mean.s[k];
    s->max.s[k] += m->max.s[k];
  }
  s->step_min_s = s->steps ? fmin(s->step_min_s, m->step_min_s) : m->step_min_s;
  s->step_max_s = fmax(s->step_max_s, m->step_max_s);
  s->step_s += m->step_s;
  s->busy_s += m->busy_s;
  to->busy_max += more->busy_max;
  for (int i = 0; i < CT_BREAKDOWN_BINS; i++)
    s->bin[i] += m->bin[i];
  s->steps += m->steps;
  s->samples += m->samples;
}

static int bin_of(double s)
{
  double i = s > 0 ? floor(8 * log2(s / CT_BREAKDOWN_FIRST_S)) : 0;
  return i < 0 ? 0 : i >= CT_BREAKDOWN_BINS ? CT_BREAKDOWN_BINS - 1 : (int)i;
}

void ct_breakdown_step(ct_breakdown_t *a, const ct_step_status_t *status, const ct_step_report_t *r)
{
  const ct_step_times_t *t = &r->times;
  double busy = ct_step_times_busy(t), length = ct_step_times_all(t), known = 0;
  own_t own = {.sum = *t, .max = *t, .busy = busy, .busy_squares = busy * busy, .busy_max = busy};
  own.steps = 1;
  add_own(&a->mine, &own);
  all_t all = {.busy_max = status->busy_max,
               .sum = {.steps = 1,
                       .samples = r->samples,
                       .max = status->time_max,
                       .step_s = length,
                       .step_min_s = length,
                       .step_max_s = length,
                       .busy_s = ct_step_times_busy(&status->time_sum) / a->topo->size}};
  for (int k = 0; k < CT_TIME_KINDS; k++)
    known += all.sum.mean.s[k] = status->time_sum.s[k] / a->topo->size;
  /* Adds the duration of the step status, which the step status itself cannot contain: the rest of
   * the step. */
  all.sum.mean.s[CT_TIME_WORD] += length - known;
  all.sum.bin[bin_of(length)] = 1;
  add_all(&a->window, &all);
}

/* Excludes checkpoints: only rank 0 writes them, which does not make it a slow rank. */
void ct_breakdown_sample(ct_breakdown_t *a, const ct_step_report_t *r)
{
  ct__slow_stats_add(&a->stats, ct_step_times_busy(&r->times) - r->times.s[CT_TIME_SAVE],
                     r->times.s[CT_TIME_DATA]);
}

/* ---- results ---- */

/* Updates the seconds off-CPU.  Reads one small file per window; the time between the steps of the
 * window is included. */
static void count_offcpu(ct_breakdown_t *a)
{
  double now = ct_cpu_offcpu("");
  a->mine.offcpu =
      now < 0 || a->offcpu_at < 0 ? NAN : fmin(now - a->offcpu_at, ct_step_times_all(&a->mine.sum));
  a->offcpu_at = now;
}

static ct_breakdown_rank_t rank_of(const own_t *o, const where_t *w)
{
  ct_breakdown_rank_t r = {.host = w->host,
                           .node = w->node,
                           .local_rank = w->local_rank,
                           .max = o->max,
                           .busy_max_s = o->busy_max,
                           .steps = o->steps};
  double n = o->steps ? (double)o->steps : 1;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    r.mean.s[k] = o->sum.s[k] / n;
  r.step_s = ct_step_times_all(&r.mean);
  r.busy_s = o->busy / n;
  r.offcpu_s = isnan(o->offcpu) ? -1 : o->offcpu / n;
  r.busy_sd_s = sqrt(fmax(0, o->busy_squares / n - r.busy_s * r.busy_s));
  return r;
}

/* Finds the rank with the largest mean busy time, and the kind of time that makes it slow. */
static void find_slowest(const ct_breakdown_t *a, const record_t *rank, ct_breakdown_sum_t *s)
{
  ct_breakdown_rank_t slowest = {.busy_s = -1};
  double offcpu = 0, above = -INFINITY;
  for (int r = 0; r < s->ranks; r++) {
    ct_breakdown_rank_t one = rank_of(&rank[r].own, &a->where[r]);
    s->busy_sd_s += one.busy_sd_s / s->ranks;
    offcpu += one.offcpu_s < 0 ? NAN : one.offcpu_s / s->ranks;
    s->max.s[CT_TIME_WORD] = fmax(s->max.s[CT_TIME_WORD], one.mean.s[CT_TIME_WORD]);
    if (one.busy_s <= slowest.busy_s) continue;
    slowest = one;
    s->slowest = r;
  }
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    double more = slowest.mean.s[k] - s->mean.s[k];
    if (!ct_step_time_is_own(k) || more <= above) continue;
    above = more;
    s->slowest_kind = k;
  }
  s->steady_s = fmax(0, slowest.busy_s - s->busy_s);
  s->offcpu_s = isnan(offcpu) ? -1 : offcpu;
  s->slowest_offcpu_s = slowest.offcpu_s;
  snprintf(s->slowest_host, sizeof s->slowest_host, "%s", slowest.host);
}

static void time_breakdown_finish(const ct_breakdown_t *a, const all_t *of, const record_t *rank,
                                  ct_breakdown_sum_t *s)
{
  *s = of->sum;
  double n = s->steps ? (double)s->steps : 1;
  s->ranks = a->topo->size;
  s->slowest = -1;
  s->offcpu_s = s->slowest_offcpu_s = -1;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    s->mean.s[k] /= n;
    s->max.s[k] /= n;
  }
  s->step_s /= n;
  s->busy_s /= n;
  s->imbalance_s = of->busy_max / n - s->busy_s;
  s->transfer_s = s->step_s - of->busy_max / n;
  if (rank && s->steps) find_slowest(a, rank, s);
  s->random_s = s->imbalance_s - s->steady_s;
}

void ct_breakdown_collect(ct_breakdown_t *a, ct_breakdown_sum_t *out)
{
  count_offcpu(a);
  record_t mine = {.own = a->mine, .stats = ct__slow_stats_of(&a->stats)};
  ct_agree_gather(a->topo, &mine, sizeof mine, a->got);
  for (int r = 0; a->got && r < a->topo->size; r++)
    add_own(&a->sums[r].own, &a->got[r].own);
  add_all(&a->total, &a->window);
  time_breakdown_finish(a, &a->window, a->got, out);
  a->mine = (own_t){0};
  a->window = (all_t){0};
  ct__slow_stats_begin(&a->stats, a->window_steps);
}

void ct_breakdown_total(const ct_breakdown_t *a, ct_breakdown_sum_t *out)
{
  time_breakdown_finish(a, &a->total, a->sums, out);
}

ct_breakdown_rank_t ct_breakdown_of_rank(const ct_breakdown_t *a, int rank)
{
  return rank_of(&a->sums[rank].own, &a->where[rank]);
}

const ct__slow_stats_t *ct_breakdown_stats_of(const ct_breakdown_t *a, int rank)
{
  return &a->got[rank].stats;
}

double ct_breakdown_quantile(const ct_breakdown_sum_t *s, double q)
{
  double want = q * (double)s->steps, seen = 0;
  for (int i = 0; i < CT_BREAKDOWN_BINS; i++) {
    double n = (double)s->bin[i];
    if (n > 0 && seen + n >= want) {
      double at = CT_BREAKDOWN_FIRST_S * exp2((i + (want - seen) / n) / 8);
      return fmax(s->step_min_s, fmin(s->step_max_s, at));
    }
    seen += n;
  }
  return s->step_max_s;
}
