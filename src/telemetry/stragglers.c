/* Windows of steps, what rank 0 remembers of each rank and host over them, and the lines about
 * those that are slow. Only rank 0 judges, by a few bytes of each rank a window: looking must cost
 * nothing. */
#include "telemetry/ct_stragglers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "telemetry/slow_rank_stats.h"

enum {
  IN_A_ROW = 2,    /* windows in which a rank is slow before it is named */
  SAY_AGAIN = 10,  /* windows after which those that still are, are named again */
  LISTED = 4,      /* ranks or hosts in a line */
  EVENTS_MAX = 16, /* ranks in metrics.jsonl, a window */
  HOSTS_MAX = 8    /* in the summary */
};

typedef char host_name_t[sizeof((ct_topo_t *)0)->host];

/* What rank 0 remembers of a rank. */
typedef struct peer {
  int host;
  int in_a_row;  /* windows up to now in which it was slow */
  int64_t named; /* windows in which it was named */
} peer_t;

typedef struct host {
  host_name_t name;
  int ranks;
  double mean_s;  /* of its ranks' busy_s, over the windows */
  int64_t slow;   /* windows in which one of its ranks was named */
  int named;      /* ranks that are, in this window */
  ct__pace_t all; /* mean over its ranks, in this window */
} host_t;

struct ct__stragglers {
  const ct_topo_t *topo;
  int64_t every, whole; /* samples of the batches that count */
  int64_t from;         /* first step of this window; 0: none yet */
  ct__pace_window_t window;
  /* rank 0, arrays by rank but for the hosts: */
  ct__pace_t *pace;
  double *share, *work;
  int *slow;
  peer_t *peer;
  host_t *host;
  int hosts;
  int64_t windows, said; /* windows so far; the one that had the last line */
  double usual_s;        /* mean of the medians */
};

static int is_named(const ct_stragglers_t *s, int r)
{
  return s->peer[r].in_a_row >= IN_A_ROW;
}

/* ---- opening ---- */

/* Slurm calls a node by its name without the domain. */
static void short_name(const ct_topo_t *topo, host_name_t name)
{
  memcpy(name, topo->host, sizeof(host_name_t));
  name[strcspn(name, ".")] = '\0';
}

static int host_of(ct_stragglers_t *s, const char *name)
{
  for (int h = 0; h < s->hosts; h++)
    if (strcmp(s->host[h].name, name) == 0) return h;
  memcpy(s->host[s->hosts].name, name, sizeof(host_name_t));
  return s->hosts++;
}

static void place_ranks(ct_stragglers_t *s, const host_name_t *names)
{
  for (int r = 0; r < s->topo->size; r++) {
    s->peer[r].host = host_of(s, names[r]);
    s->host[s->peer[r].host].ranks++;
  }
}

static void share_out(ct_stragglers_t *s, const ct_sampler_t *sampler)
{
  int64_t first, fewest = s->whole;
  for (int r = 0; r < s->topo->size; r++) {
    int64_t n = ct_sampler_share(sampler, s->whole, r, s->topo->size, &first);
    s->share[r] = (double)n;
    if (n < fewest) fewest = n;
  }
  for (int r = 0; r < s->topo->size; r++)
    s->share[r] /= (double)fewest;
}

static int make_room(ct_stragglers_t *s, host_name_t **names)
{
  static const char what[] = "the ranks' times";
  int n = s->topo->size;
  if (s->topo->rank) return CT_OK;
  s->pace = ct_mem_array(n, sizeof *s->pace, what);
  s->share = ct_mem_array(n, sizeof *s->share, what);
  s->work = ct_mem_array(n, sizeof *s->work, what);
  s->slow = ct_mem_array(n, sizeof *s->slow, what);
  s->peer = ct_mem_array(n, sizeof *s->peer, what);
  s->host = ct_mem_array(n, sizeof *s->host, what);
  *names = ct_mem_array(n, sizeof **names, what);
  return s->pace && s->share && s->work && s->slow && s->peer && s->host && *names ? CT_OK
                                                                                   : CT_ERR_NOMEM;
}

int ct_stragglers_open(const ct_topo_t *topo, int64_t every, const ct_sampler_t *sampler,
                       ct_stragglers_t **out)
{
  int rc = CT_OK;
  int64_t whole = ct_sampler_batch(sampler, 0);
  host_name_t mine, *names = NULL;
  ct_stragglers_t *s = NULL;
  *out = NULL;
  if (every == 0 || topo->size == 1 || whole < topo->size) return CT_OK;
  s = ct_mem_alloc(sizeof *s, "the ranks' times");
  CT_TRY_ALL(topo, s ? CT_OK : CT_ERR_NOMEM);
  s->topo = topo;
  s->every = every;
  s->whole = whole;
  ct__pace_begin(&s->window, every);
  CT_TRY_ALL(topo, make_room(s, &names));
  short_name(topo, mine);
  ct_agree_gather(topo, mine, sizeof mine, names);
  if (topo->rank == 0) {
    place_ranks(s, (const host_name_t *)names);
    share_out(s, sampler);
  }
  *out = s;
  s = NULL;
out:
  ct_mem_free(names);
  ct_stragglers_close(s);
  return rc;
}

void ct_stragglers_close(ct_stragglers_t *s)
{
  if (!s) return;
  ct_mem_free(s->pace);
  ct_mem_free(s->share);
  ct_mem_free(s->work);
  ct_mem_free(s->slow);
  ct_mem_free(s->peer);
  ct_mem_free(s->host);
  ct_mem_free(s);
}

/* ---- a window: what rank 0 remembers ---- */

/* The mean of n numbers, the last of which is \a v. */
static void add_to_mean(double *mean, double v, int64_t n)
{
  *mean += (v - *mean) / (double)n;
}

/* How many are named that never were before. */
static int remember(ct_stragglers_t *s, const ct__pace_t *usual)
{
  int news = 0;
  for (int h = 0; h < s->hosts; h++) {
    s->host[h].named = 0;
    s->host[h].all = (ct__pace_t){0};
  }
  for (int r = 0; r < s->topo->size; r++) {
    peer_t *p = &s->peer[r];
    host_t *h = &s->host[p->host];
    p->in_a_row = s->slow[r] ? p->in_a_row + 1 : 0;
    h->named += is_named(s, r);
    h->all.busy_s += s->pace[r].busy_s / h->ranks;
    h->all.data_s += s->pace[r].data_s / h->ranks;
    news += is_named(s, r) && !p->named;
    p->named += is_named(s, r);
  }
  s->windows++;
  for (int h = 0; h < s->hosts; h++) {
    add_to_mean(&s->host[h].mean_s, s->host[h].all.busy_s, s->windows);
    s->host[h].slow += s->host[h].named > 0;
  }
  add_to_mean(&s->usual_s, usual->busy_s, s->windows);
  return news;
}

/* ---- a window: the line ---- */

static int add_times(ct_str_t *t, const ct__pace_t *p, const ct__pace_t *usual)
{
  return ct_str_add(t, " by %s, %.1f ms busy a step (compute %.1f, data %.1f); ",
                    ct__pace_is_data(p, usual) ? "data" : "compute", 1e3 * p->busy_s,
                    1e3 * (p->busy_s - p->data_s), 1e3 * p->data_s);
}

/* 1 if the host is named instead of its ranks. */
static int as_a_whole(const ct_stragglers_t *s, const host_t *h)
{
  return s->hosts > 1 && h->ranks > 1 && h->named == h->ranks;
}

/* Those that are named: hosts, then ranks of other hosts.  The first few are listed; *n: how many.
 */
static int list(ct_str_t *t, const ct_stragglers_t *s, const ct__pace_t *usual, int *n)
{
  int rc = CT_OK;
  *n = 0;
  for (int h = 0; h < s->hosts; h++) {
    if (!as_a_whole(s, &s->host[h]) || ++*n > LISTED) continue;
    CT_TRY(ct_str_add(t, "%s", s->host[h].name));
    CT_TRY(add_times(t, &s->host[h].all, usual));
  }
  for (int r = 0; r < s->topo->size; r++) {
    const host_t *h = &s->host[s->peer[r].host];
    if (!is_named(s, r) || as_a_whole(s, h) || ++*n > LISTED) continue;
    CT_TRY(ct_str_add(t, "rank %d (%s)", r, h->name));
    CT_TRY(add_times(t, &s->pace[r], usual));
  }
out:
  return rc;
}

static int say(ct_stragglers_t *s, int64_t step, const ct__pace_t *usual)
{
  int rc = CT_OK, n = 0;
  ct_str_t t = {0};
  CT_TRY(list(&t, s, usual, &n));
  if (n > LISTED) CT_TRY(ct_str_add(&t, "and %d more; ", n - LISTED));
  if (n)
    ct_log(CT_LOG_WARN,
           "slow ranks in steps %lld-%lld: %sthe others %.1f ms (compute %.1f, data %.1f)",
           (long long)s->from, (long long)step, t.data, 1e3 * usual->busy_s,
           1e3 * (usual->busy_s - usual->data_s), 1e3 * usual->data_s);
  if (n) s->said = s->windows;
out:
  ct_str_clear(&t);
  return rc;
}

static int events(const ct_stragglers_t *s, int64_t step, double median_s, ct_metrics_t *m)
{
  int rc = CT_OK, n = 0;
  for (int r = 0; r < s->topo->size && n < EVENTS_MAX; r++) {
    if (!is_named(s, r)) continue;
    n++;
    ct_metrics_begin(m, "straggler");
    ct_metrics_int(m, "step", step);
    ct_metrics_int(m, "rank", r);
    ct_metrics_text(m, "host", s->host[s->peer[r].host].name);
    ct_metrics_num(m, "busy_s", s->pace[r].busy_s);
    ct_metrics_num(m, "median_s", median_s);
    ct_metrics_num(m, "data_s", s->pace[r].data_s);
    CT_TRY(ct_metrics_end(m));
  }
out:
  return rc;
}

/* ---- steps ---- */

static int judge(ct_stragglers_t *s, int64_t step, ct_metrics_t *m)
{
  int rc = CT_OK;
  ct__pace_t usual;
  ct__pace_judge(s->pace, s->share, s->topo->size, s->work, s->slow, &usual);
  if (!isfinite(usual.error_s)) return CT_OK; /* too few steps to tell */
  int news = remember(s, &usual);
  if (news || s->windows - s->said >= SAY_AGAIN) CT_TRY(say(s, step, &usual));
  CT_TRY(events(s, step, usual.busy_s, m));
out:
  return rc;
}

/* Checkpoints are rank 0's duty. */
static double busy_of(const ct_step_report_t *r)
{
  return ct_step_times_busy(&r->times) - r->times.s[CT_TIME_SAVE];
}

int ct_stragglers_step(ct_stragglers_t *s, int64_t step, int64_t samples, const ct_step_report_t *r,
                       ct_metrics_t *m)
{
  int rc = CT_OK;
  if (!s) return CT_OK;
  if (!s->from) s->from = step;
  if (samples == s->whole) ct__pace_add(&s->window, busy_of(r), r->data_s);
  if (step % s->every) return CT_OK;
  ct__pace_t mine = ct__pace_of(&s->window);
  ct_agree_gather(s->topo, &mine, sizeof mine, s->pace);
  if (s->topo->rank == 0) rc = judge(s, step, m);
  ct__pace_begin(&s->window, s->every);
  s->from = step + 1;
  return rc;
}

/* ---- the end ---- */

static int slowest_first(const void *a, const void *b)
{
  double x = ((const host_t *)a)->mean_s, y = ((const host_t *)b)->mean_s;
  return (x < y) - (x > y);
}

/* Where all are on one host. */
static int slow_ranks(const ct_stragglers_t *s, ct_str_t *t)
{
  int rc = CT_OK, n = 0;
  for (int r = 0; r < s->topo->size; r++) {
    long long named = s->peer[r].named;
    if (named && ++n <= LISTED)
      CT_TRY(ct_str_add(t, "%srank %d in %lld", n > 1 ? ", " : "", r, named));
  }
  if (n > LISTED) CT_TRY(ct_str_add(t, " and %d more", n - LISTED));
out:
  return rc;
}

static void host_line(const ct_stragglers_t *s, const host_t *h)
{
  char slow[64] = "";
  if (h->slow)
    snprintf(slow, sizeof slow, ", slow in %lld of %lld windows", (long long)h->slow,
             (long long)s->windows);
  ct_log(CT_LOG_INFO, "  %-16s %8.1f ms, %.2f of the median%s", h->name, 1e3 * h->mean_s,
         h->mean_s / s->usual_s, slow);
}

/* The names of the hosts that were slow in half of the windows and more, and how many. */
static int bad_hosts(const ct_stragglers_t *s, ct_str_t *t, int *n)
{
  int rc = CT_OK;
  *n = 0;
  for (int h = 0; h < s->hosts; h++) {
    if (s->host[h].slow < IN_A_ROW || 2 * s->host[h].slow < s->windows) continue;
    CT_TRY(ct_str_add(t, "%s%s", (*n)++ ? "," : "", s->host[h].name));
  }
out:
  return rc;
}

/* A job on one host has no other to go to, and what is slow everywhere is no host's fault. */
static void tell_cure(const ct_stragglers_t *s)
{
  int n;
  ct_str_t t = {0};
  if (bad_hosts(s, &t, &n) != CT_OK || n == 0 || n == s->hosts) goto out;
  const char *exclude = s->topo->job.system.exclude;
  if (exclude)
    ct_log(CT_LOG_WARN, "%s: slow at least half of the time; to run without: %s%s ...", t.data,
           exclude, t.data);
  else
    ct_log(CT_LOG_WARN,
           "%s: slow at least half of the time; to run without, name the other hosts to "
           "the launcher",
           t.data);
out:
  ct_str_clear(&t);
}

static void tell_hosts(ct_stragglers_t *s)
{
  qsort(s->host, (size_t)s->hosts, sizeof *s->host, slowest_first);
  ct_log(CT_LOG_INFO, "busy in a step: %.1f ms (median of the ranks)", 1e3 * s->usual_s);
  for (int h = 0; h < s->hosts && h < HOSTS_MAX; h++)
    host_line(s, &s->host[h]);
  if (s->hosts > HOSTS_MAX) ct_log(CT_LOG_INFO, "  and %d more hosts", s->hosts - HOSTS_MAX);
  tell_cure(s);
}

void ct_stragglers_summary(ct_stragglers_t *s)
{
  ct_str_t t = {0};
  if (!s || s->topo->rank || s->windows == 0) return;
  if (s->hosts > 1)
    tell_hosts(s);
  else if (slow_ranks(s, &t) == CT_OK && t.len)
    ct_log(CT_LOG_INFO, "slow ranks: %s of %lld windows of %lld steps", t.data,
           (long long)s->windows, (long long)s->every);
  ct_str_clear(&t);
}
