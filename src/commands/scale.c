/* `scale`: runs a scaling study in one launch.  Each round measures every configuration once, in
 * random order, so that slow drifts of the machine do not favour one of them.  Rounds repeat until
 * the medians are precise enough (Hoefler and Belli 2015, rules 5 and 6). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/ct_commands.h"
#include "study/measure/ct_scale.h"
#include "setup/ct_setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "host/ct_machine.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "comm/ct_agree.h"

typedef struct scale {
  const ct_args_t *a;
  const ct_topo_t *topo;
  ct_scale_opts_t o;
  ct_scale_placement_t placement;
  ct_scale_config_t config[CT_SCALE_CONFIGS];
  int n;
  char dir[CT_PATH_MAX];
  uint64_t key, seed;
  ct_scale_study_t study; /* rank 0 only */
  ct_scale_groups_t groups;
  double begun;
  int measured; /* measurements in this launch */
} scale_t;

/* ---- preparation ---- */

static int batch_of(const scale_t *s, const ct_config_t *c, int64_t *out)
{
  int rc = CT_OK;
  *out = c->data.batch;
  if (!s->o.weak && c->data.batch_per_rank)
    CT_FAIL(CT_ERR_USAGE, "scale: --strong shares one batch among the ranks: set data.batch "
                          "instead of data.batch_per_rank");
  if (s->o.weak && c->data.batch_per_rank) *out = c->data.batch_per_rank;
out:
  return rc;
}

/* Computes the key of a study: all its measurements have the same configuration, program and
 * machine. */
static int scale_key_of(scale_t *s, const ct_config_t *c)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  ct_machine_t m;
  CT_TRY(ct_config_dump(c, &text));
  ct_machine_read(&m, 0);
  s->key = ct_hash_text(text.data, m.program);
  s->key = ct_hash_text(s->topo->host, s->key);
  s->key = ct_hash_int(s->o.weak * 2 + s->o.spread, s->key);
out:
  ct_str_clear(&text);
  return rc;
}

static int scale_prepare(scale_t *s)
{
  int rc = CT_OK;
  int64_t batch;
  const char *dir = ct_args_get(s->a, "dir");
  ct_topo_t one;
  ct_setup_t setup = {.topo = &one};
  CT_TRY(ct_topo_split(s->topo, s->topo->rank, 0, &one)); /* the configuration as one rank alone
                                                             reads it */
  rc = ct_setup_config(&setup, s->a->rest[0], s->a);
  ct_topo_unsplit(&one);
  CT_TRY_ALL(s->topo, rc);
  const ct_config_t *c = &setup.cfg;
  CT_TRY(batch_of(s, c, &batch));
  CT_TRY(ct_scale_placement(s->topo, s->o.spread, &s->placement));
  CT_TRY(ct_scale_plan(&s->o, s->topo, &s->placement, batch, s->config, &s->n));
  for (int i = 0; i < s->n; i++)
    if (!s->config[i].threads) s->config[i].threads = ct_setup_threads(c, s->topo->threads);
  CT_TRY(dir ? ct_text_format(s->dir, sizeof s->dir, "%s", dir)
             : ct_text_format(s->dir, sizeof s->dir, "scaling/%s", c->run.name));
  s->seed = (uint64_t)c->run.seed;
  CT_TRY(scale_key_of(s, c));
out:
  ct_setup_close(&setup);
  return rc;
}

/* ---- rounds ---- */

/* Returns the next configuration of a round in random order (the smallest random number first), or
 * -1. */
static int next_of_round(const scale_t *s, int round, const int *done)
{
  int best = -1;
  uint64_t least = 0;
  for (int i = 0; i < s->n; i++) {
    uint64_t draw = ct_rng_u64(s->seed, CT_RNG_ORDER, (uint32_t)round, (uint64_t)i);
    if (done[i] || s->config[i].settled || s->config[i].rounds > round) continue;
    if (best < 0 || draw < least) best = i, least = draw;
  }
  return best;
}

static void log_round(const scale_t *s, int i, int round, double seconds)
{
  const ct_scale_config_t *p = &s->config[i];
  static const char *const what[] = {"", " alone", " side by side"};
  if (s->topo->rank) return;
  ct_log(CT_LOG_INFO, "round %d: %d rank%s%s on %d node%s, batch %" PRId64 ": %.4g ms per step",
         round + 1, p->ranks, p->ranks == 1 ? "" : "s", what[p->kind], p->nodes,
         p->nodes == 1 ? "" : "s", p->batch, 1e3 * seconds);
}

static void quiet(const scale_t *s, int on)
{
  if (!ct_args_get(s->a, "log"))
    ct_log_setup(s->topo->rank, s->topo->size, on ? CT_LOG_WARN : CT_LOG_INFO);
}

/* Measures one configuration.  If it fails, the reason is recorded, and the study continues. */
static int one_config(scale_t *s, int i, int round)
{
  int rc = CT_OK;
  ct_scale_config_t *p = &s->config[i];
  ct_scale_round_t b = {.wants_timeline =
                            s->topo->rank == 0 && p->kind == CT_STUDY_RUN && !s->study.timeline};
  quiet(s, 1); /* otherwise each measurement would log its device */
  s->measured++;
  int measured = ct_scale_measure(s->a, s->topo, &s->placement, &s->o, p, i, &s->groups, &b);
  quiet(s, 0);
  if (measured != CT_OK) {
    ct_err_info_t why = *ct_err_last();
    if (s->topo->rank == 0) ct_log(CT_LOG_WARN, "%d ranks: %s", p->ranks, why.text);
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_add(&s->study, p, round, &b, why.text));
    p->settled = 1;
  } else {
    double seconds = json_number_value(json_object_get(b.breakdown, "step_s"));
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_add(&s->study, p, round, &b, NULL));
    log_round(s, i, round, seconds);
    p->rounds++;
  }
out:
  json_decref(b.breakdown);
  json_decref(b.ranks_busy_s);
  json_decref(b.conditions);
  json_decref(b.timeline);
  return rc;
}

/* Broadcasts rank 0's results. */
static int share_configs(scale_t *s)
{
  int rc = CT_OK;
  void *data = s->config;
  size_t bytes = (size_t)s->n * sizeof s->config[0];
  CT_TRY(ct_agree_bytes(s->topo, CT_OK, &data, &bytes));
  if (s->topo->rank) {
    memcpy(s->config, data, bytes);
    ct_mem_free(data);
  }
out:
  return rc;
}

/* Sets *out to 1 if the time budget is used up.  At least one configuration is always measured. */
static int enough(const scale_t *s, int *out)
{
  int rc = CT_OK;
  double over = s->topo->rank == 0 && s->measured && s->o.budget_s > 0 &&
                ct_clock() - s->begun > s->o.budget_s;
  CT_TRY(ct_agree_doubles(s->topo, &over, 1, 1));
  *out = over > 0;
out:
  return rc;
}

static int one_round(scale_t *s, int round, int *over)
{
  int rc = CT_OK, done[CT_SCALE_CONFIGS] = {0};
  for (;;) {
    int i = next_of_round(s, round, done);
    if (i < 0) break;
    CT_TRY(enough(s, over));
    if (*over) break;
    done[i] = 1;
    CT_TRY(one_config(s, i, round));
  }
out:
  return rc;
}

static int all_rounds(scale_t *s)
{
  int rc = CT_OK, over = 0;
  for (int round = 0; round < CT_STUDY_ROUNDS && !over; round++) {
    int open = 0;
    CT_TRY(one_round(s, round, &over));
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_settle(&s->study, &s->o, s->config, s->n));
    CT_TRY(share_configs(s));
    for (int i = 0; i < s->n; i++) {
      open += !s->config[i].settled;
      if (s->config[i].settled) ct_scale_group_drop(&s->groups, i);
    }
    if (!open) break;
  }
  if (over && s->topo->rank == 0)
    ct_log(CT_LOG_INFO, "the budget is used up; the same command resumes the study");
out:
  return rc;
}

int ct_cmd_scale(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  json_t *machine = NULL;
  (void)status;
  scale_t *s = ct_mem_alloc(sizeof *s, "a scaling study");
  CT_TRY_ALL(topo, s ? CT_OK : CT_ERR_NOMEM);
  s->a = a;
  s->topo = topo;
  s->begun = ct_clock();
  CT_TRY(ct_scale_opts(a, topo->size, &s->o));
  CT_TRY(scale_prepare(s));
  CT_TRY(ct_scale_machine(topo, &machine));
  CT_TRY_ALL(topo, topo->rank ? CT_OK
                              : ct_scale_open(s->dir, &s->o, topo, s->key, machine, s->config, s->n,
                                              &s->study));
  CT_TRY(share_configs(s));
  ct_scale_groups_open(topo, s->o.fresh ? 0 : 0.25, &s->groups);
  CT_TRY(all_rounds(s));
  CT_TRY_ALL(topo, topo->rank ? CT_OK
                              : ct_scale_print(&s->study, ct_args_get(a, "predict"),
                                               ct_args_get(a, "json") != NULL));
out:
  json_decref(machine);
  if (s) {
    ct_scale_groups_close(&s->groups);
    ct_scale_close(&s->study);
    ct_scale_placement_clear(&s->placement);
  }
  ct_mem_free(s);
  return rc;
}
