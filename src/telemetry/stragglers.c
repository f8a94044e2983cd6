/* Slow ranks: rank 0 keeps statistics of ranks and hosts over the windows, and logs slow ones. */
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
  IN_A_ROW = 2, /* number of consecutive windows in which a rank must be slow before it is named */
  SAY_AGAIN = 10,  /* windows until ranks that are still slow are named again */
  LISTED = 4,      /* maximum number of ranks or hosts in a log line */
  EVENTS_MAX = 16, /* maximum number of ranks per window in metrics.jsonl */
  HOSTS_MAX = 8    /* maximum number of hosts in the summary */
};

typedef struct peer {
  int host;
  int in_a_row;  /* number of consecutive windows up to now in which the rank was slow */
  int64_t named; /* number of windows in which it was named */
} peer_t;

typedef struct host {
  char name[sizeof((ct_topo_t *)0)->host];
  int ranks;
  double mean_s;        /* busy time of a step, mean over its ranks and all windows */
  int64_t slow;         /* number of windows in which one of its ranks was named */
  int named;            /* number of its ranks that are named in this window */
  ct__slow_stats_t all; /* mean over its ranks in this window */
} host_t;

struct ct__stragglers {
  const ct_topo_t *topo;
  const ct_breakdown_t *breakdown;
  int64_t every;
  /* arrays by rank, except for the hosts: */
  ct__slow_stats_rank_t *rank;
  double *work;
  peer_t *peer;
  host_t *host;
  int hosts;
  int64_t windows, said; /* number of windows so far; the window of the latest log line */
  double usual_s;        /* mean over the windows of the median busy time */
};

static int is_named(const ct_stragglers_t *s, int r)
{
  return s->peer[r].in_a_row >= IN_A_ROW;
}

/* ---- opening ---- */

/* Returns the index of the host of rank r.  Hosts are named without the domain, as Slurm does. */
static int host_of(ct_stragglers_t *s, int r)
{
  host_t *new = &s->host[s->hosts];
  snprintf(new->name, sizeof new->name, "%s", ct_breakdown_of_rank(s->breakdown, r).host);
  new->name[strcspn(new->name, ".")] = '\0';
  for (int h = 0; h < s->hosts; h++)
    if (strcmp(s->host[h].name, new->name) == 0) return h;
  return s->hosts++;
}

static void set_ranks(ct_stragglers_t *s, const ct_sampler_t *sampler, int64_t whole)
{
  int64_t first, n, fewest = whole;
  int ranks = s->topo->size;
  for (int r = 0; r < ranks; r++) {
    n = ct_sampler_local_batch(sampler, whole, r, ranks, &first);
    s->rank[r].share = (double)n;
    if (n < fewest) fewest = n;
  }
  for (int r = 0; r < ranks; r++) {
    s->rank[r].share /= (double)fewest;
    s->peer[r].host = host_of(s, r);
    s->host[s->peer[r].host].ranks++;
  }
}

int ct_stragglers_open(const ct_topo_t *topo, const ct_breakdown_t *a, int64_t every,
                       const ct_sampler_t *sampler, ct_stragglers_t **out)
{
  static const char what[] = "the search for slow ranks";
  int rc = CT_OK, n = topo->size;
  int64_t whole = ct_sampler_batch(sampler, 0);
  *out = NULL;
  if (topo->rank || whole < n) return CT_OK;
  ct_stragglers_t *s = ct_mem_alloc(sizeof *s, what);
  if (!s) return CT_ERR_NOMEM;
  *s = (ct_stragglers_t){.topo = topo, .breakdown = a, .every = every};
  s->rank = ct_mem_array(n, sizeof *s->rank, what);
  s->work = ct_mem_array(n, sizeof *s->work, what);
  s->peer = ct_mem_array(n, sizeof *s->peer, what);
  s->host = ct_mem_array(n + 1, sizeof *s->host, what);
  CT_TRY(s->rank && s->work && s->peer && s->host ? CT_OK : CT_ERR_NOMEM);
  set_ranks(s, sampler, whole);
  *out = s;
  s = NULL;
out:
  ct_stragglers_close(s);
  return rc;
}

void ct_stragglers_close(ct_stragglers_t *s)
{
  if (!s) return;
  ct_mem_free(s->rank);
  ct_mem_free(s->work);
  ct_mem_free(s->peer);
  ct_mem_free(s->host);
  ct_mem_free(s);
}

/* ---- a window ---- */

/* Updates the mean of n numbers, the last of which is \a v. */
static void add_to_mean(double *mean, double v, int64_t n)
{
  *mean += (v - *mean) / (double)n;
}

/* Returns how many ranks are named for the first time. */
static int remember(ct_stragglers_t *s, const ct__slow_stats_t *usual)
{
  int news = 0;
  for (int h = 0; h < s->hosts; h++) {
    s->host[h].named = 0;
    s->host[h].all = (ct__slow_stats_t){0};
  }
  for (int r = 0; r < s->topo->size; r++) {
    peer_t *p = &s->peer[r];
    host_t *h = &s->host[p->host];
    p->in_a_row = s->rank[r].slow ? p->in_a_row + 1 : 0;
    h->named += is_named(s, r);
    h->all.busy_s += s->rank[r].stats.busy_s / h->ranks;
    h->all.data_s += s->rank[r].stats.data_s / h->ranks;
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

/* Appends the times of a slow host or rank to the log line. */
static int add_slow(ct_str_t *t, const char *who, const ct__slow_stats_t *p,
                    const ct__slow_stats_t *usual)
{
  return ct_str_add(t, "%s by %s, busy for %.1f ms per step (compute %.1f, data %.1f); ", who,
                    ct__slow_stats_is_data(p, usual) ? "data" : "compute", 1e3 * p->busy_s,
                    1e3 * (p->busy_s - p->data_s), 1e3 * p->data_s);
}

/* Returns 1 if the host is named instead of its ranks. */
static int as_a_whole(const ct_stragglers_t *s, const host_t *h)
{
  return s->hosts > 1 && h->ranks > 1 && h->named == h->ranks;
}

/* Lists the first few hosts that are named as a whole, then ranks of other hosts. *n: number of all
 * slow ranks. */
static int stragglers_list(ct_str_t *t, const ct_stragglers_t *s, const ct__slow_stats_t *usual,
                           int *n)
{
  int rc = CT_OK;
  char who[100];
  *n = 0;
  for (int h = 0; h < s->hosts; h++)
    if (as_a_whole(s, &s->host[h]) && ++*n <= LISTED)
      CT_TRY(add_slow(t, s->host[h].name, &s->host[h].all, usual));
  for (int r = 0; r < s->topo->size; r++) {
    const host_t *h = &s->host[s->peer[r].host];
    if (!is_named(s, r) || as_a_whole(s, h) || ++*n > LISTED) continue;
    snprintf(who, sizeof who, "rank %d (%s)", r, h->name);
    CT_TRY(add_slow(t, who, &s->rank[r].stats, usual));
  }
out:
  return rc;
}

static int say(ct_stragglers_t *s, int64_t from, int64_t to, const ct__slow_stats_t *usual)
{
  int rc = CT_OK, n = 0;
  ct_str_t t = {0};
  CT_TRY(stragglers_list(&t, s, usual, &n));
  if (n > LISTED) CT_TRY(ct_str_add(&t, "and %d more; ", n - LISTED));
  if (n)
    ct_log(CT_LOG_WARN,
           "slow ranks in steps %lld-%lld: %sthe others %.1f ms (compute %.1f, data %.1f)",
           (long long)from, (long long)to, t.data, 1e3 * usual->busy_s,
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
    ct_metrics_num(m, "busy_s", s->rank[r].stats.busy_s);
    ct_metrics_num(m, "median_s", median_s);
    ct_metrics_num(m, "data_s", s->rank[r].stats.data_s);
    CT_TRY(ct_metrics_end(m));
  }
out:
  return rc;
}

int ct_stragglers_window(ct_stragglers_t *s, int64_t from, int64_t to, ct_metrics_t *m)
{
  int rc = CT_OK;
  ct__slow_stats_t usual;
  if (!s) return CT_OK;
  for (int r = 0; r < s->topo->size; r++)
    s->rank[r].stats = *ct_breakdown_stats_of(s->breakdown, r);
  ct__slow_stats_judge(s->rank, s->topo->size, s->work, &usual);
  if (!isfinite(usual.error_s)) return CT_OK; /* too few steps */
  int news = remember(s, &usual);
  if (news || s->windows - s->said >= SAY_AGAIN) CT_TRY(say(s, from, to, &usual));
  CT_TRY(events(s, to, usual.busy_s, m));
out:
  return rc;
}

/* ---- the end ---- */

static int slowest_first(const void *a, const void *b)
{
  double x = ((const host_t *)a)->mean_s, y = ((const host_t *)b)->mean_s;
  return (x < y) - (x > y);
}

/* Lists the slow ranks of a run on one host. */
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

/* Lists the hosts that were slow in at least half of the windows. *n: their number. */
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

/* Suggests how to run without slow hosts, unless all hosts were slow: then the cause is not a host.
 */
static void log_cure(const ct_stragglers_t *s)
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

static void log_hosts(ct_stragglers_t *s)
{
  qsort(s->host, (size_t)s->hosts, sizeof *s->host, slowest_first);
  ct_log(CT_LOG_INFO, "busy in a step: %.1f ms (median of the ranks)", 1e3 * s->usual_s);
  for (int h = 0; h < s->hosts && h < HOSTS_MAX; h++)
    host_line(s, &s->host[h]);
  if (s->hosts > HOSTS_MAX) ct_log(CT_LOG_INFO, "  and %d more hosts", s->hosts - HOSTS_MAX);
  log_cure(s);
}

void ct_stragglers_summary(ct_stragglers_t *s)
{
  ct_str_t t = {0};
  if (!s || s->windows == 0) return;
  if (s->hosts > 1)
    log_hosts(s);
  else if (slow_ranks(s, &t) == CT_OK && t.len)
    ct_log(CT_LOG_INFO, "slow ranks: %s of %lld windows of %lld steps", t.data,
           (long long)s->windows, (long long)s->every);
  ct_str_clear(&t);
}
