/* The account of a run, told: a line a window, a table of all ranks at the end.  The ranks send a
 * few bytes a window, and rank 0 alone writes. */
#include "telemetry/ct_time_breakdown_lines.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

typedef struct place {
  char host[sizeof((ct_topo_t *)0)->host];
  int node, local_rank;
} place_t;

struct ct__accounts {
  const ct_topo_t *topo;
  ct_metrics_t *metrics;
  ct_account_t *account;
  int64_t every;
  int begun;      /* 1: the first step is over */
  place_t *place; /* rank 0: of each rank */
};

static int make_room(ct_accounts_t *a)
{
  int rc = CT_OK;
  CT_TRY(ct_account_open(a->topo, &a->account));
  if (a->topo->rank) return CT_OK;
  a->place = ct_mem_array(a->topo->size, sizeof *a->place, "the ranks' places");
  if (!a->place) rc = CT_ERR_NOMEM;
out:
  return rc;
}

int ct_accounts_open(const ct_topo_t *topo, int64_t every, ct_metrics_t *m, ct_accounts_t **out)
{
  int rc = CT_OK;
  place_t mine = {.node = topo->node_index, .local_rank = topo->local_rank};
  ct_accounts_t *a = ct_mem_alloc(sizeof *a, "the account of the run");
  *out = NULL;
  CT_TRY_ALL(topo, a ? CT_OK : CT_ERR_NOMEM);
  *a = (ct_accounts_t){.topo = topo, .metrics = m, .every = every};
  CT_TRY_ALL(topo, make_room(a));
  memcpy(mine.host, topo->host, sizeof mine.host);
  ct_agree_gather(topo, &mine, sizeof mine, a->place);
  *out = a;
  a = NULL;
out:
  ct_accounts_close(a);
  return rc;
}

void ct_accounts_close(ct_accounts_t *a)
{
  if (!a) return;
  ct_account_close(a->account);
  ct_mem_free(a->place);
  ct_mem_free(a);
}

static const char *host_of(const ct_accounts_t *a, const ct_account_sum_t *s)
{
  return a->place && s->slowest >= 0 ? a->place[s->slowest].host : NULL;
}

int ct_accounts_step(ct_accounts_t *a, int64_t step, const ct_step_word_t *word,
                     const ct_step_report_t *r)
{
  ct_account_sum_t window;
  if (a->begun)
    ct_account_step(a->account, word, r);
  else
    ct_account_begin(a->account);
  a->begun = 1;
  if (a->every == 0 || step % a->every) return CT_OK;
  ct_account_collect(a->account, &window);
  if (!a->metrics || !window.steps) return CT_OK;
  ct_metrics_begin(a->metrics, "account");
  ct_metrics_int(a->metrics, "step", step);
  ct_metrics_json(a->metrics, NULL, ct_account_json(&window, host_of(a, &window)));
  return ct_metrics_end(a->metrics);
}

void ct_accounts_total(const ct_accounts_t *a, ct_account_sum_t *out, const char **host)
{
  ct_account_total(a->account, out);
  *host = host_of(a, out);
}

/* ---- ranks.csv ---- */

static int add_head(ct_str_t *t)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(t, "rank,host,node,local_rank,steps,step_s,busy_s,busy_sd_s,busy_max_s"));
  for (int k = 0; k < CT_TIME_KINDS; k++)
    CT_TRY(ct_str_add(t, ",%s_s", ct_step_time_name(k)));
  CT_TRY(ct_str_add(t, ",taken_s\n"));
out:
  return rc;
}

static int add_rank(const ct_accounts_t *a, int r, ct_str_t *t)
{
  int rc = CT_OK;
  const place_t *p = &a->place[r];
  ct_account_rank_t one = ct_account_of_rank(a->account, r);
  CT_TRY(ct_str_add(t, "%d,%s,%d,%d,%lld,%.9g,%.9g,%.9g,%.9g", r, p->host, p->node, p->local_rank,
                    (long long)one.steps, one.step_s, one.busy_s, one.busy_sd_s, one.busy_max_s));
  for (int k = 0; k < CT_TIME_KINDS; k++)
    CT_TRY(ct_str_add(t, ",%.9g", one.mean.s[k]));
  if (one.taken_s >= 0)
    CT_TRY(ct_str_add(t, ",%.9g\n", one.taken_s));
  else
    CT_TRY(ct_str_add(t, ",\n"));
out:
  return rc;
}

static int write_ranks(const ct_accounts_t *a, const char *dir)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t t = {0};
  CT_TRY(ct_path_join(path, sizeof path, dir, "ranks.csv"));
  CT_TRY(add_head(&t));
  for (int r = 0; r < a->topo->size; r++)
    CT_TRY(add_rank(a, r, &t));
  CT_TRY(ct_file_write(path, t.data, t.len));
out:
  ct_str_clear(&t);
  return rc;
}

/* What several ranks made of a step, for people. */
static void tell(const ct_accounts_t *a, const ct_account_sum_t *s)
{
  char who[160] = "";
  if (2 * s->steady_s > s->imbalance_s)
    snprintf(who, sizeof who, " (mostly rank %d on %s, by %s)", s->slowest, host_of(a, s),
             ct_step_time_name(s->slowest_kind));
  ct_log(CT_LOG_INFO,
         "a step took %.3f ms: ranks were busy for %.3f, waited %.3f for the slowest%s, and %.3f "
         "for messages",
         1e3 * s->step_s, 1e3 * s->busy_s, 1e3 * s->imbalance_s, who, 1e3 * s->transfer_s);
  if (s->slowest_taken_s > 0.05 * s->step_s)
    ct_log(CT_LOG_WARN,
           "rank %d on %s stood ready for %.0f %% of the time while others had its core: look for "
           "programs beside it, or for ranks and threads on the same cores",
           s->slowest, host_of(a, s), 100 * s->slowest_taken_s / s->step_s);
}

int ct_accounts_end(ct_accounts_t *a, const char *dir)
{
  ct_account_sum_t sum;
  ct_account_collect(a->account, &sum);
  ct_account_total(a->account, &sum);
  if (!a->metrics || !sum.steps) return CT_OK;
  if (sum.ranks > 1) tell(a, &sum);
  return write_ranks(a, dir);
}
