/* `scale`: a scaling study in one launch.  In each block every size is measured once, in an order
 * of its own, so that what changes in the machine over hours is no property of a size; blocks go on
 * until the medians are known well enough (Hoefler and Belli 2015, rules 5 and 6). */
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
  ct_scale_places_t places;
  ct_scale_point_t point[CT_SCALE_POINTS];
  int n;
  char dir[CT_PATH_MAX];
  uint64_t key, seed;
  ct_scale_study_t study; /* rank 0 */
  ct_scale_worlds_t worlds;
  double begun;
  int measured; /* points in this launch */
} scale_t;

/* ---- before ---- */

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

/* The points of one study are of one configuration, program and machine. */
static int key_of(scale_t *s, const ct_config_t *c)
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

static int prepare(scale_t *s)
{
  int rc = CT_OK;
  int64_t batch;
  const char *dir = ct_args_get(s->a, "dir");
  ct_topo_t one;
  ct_setup_t setup = {.topo = &one};
  CT_TRY(ct_topo_split(s->topo, s->topo->rank, 0, &one)); /* as one rank would read it */
  rc = ct_setup_config(&setup, s->a->rest[0], s->a);
  ct_topo_unsplit(&one);
  CT_TRY_ALL(s->topo, rc);
  const ct_config_t *c = &setup.cfg;
  CT_TRY(batch_of(s, c, &batch));
  CT_TRY(ct_scale_places(s->topo, s->o.spread, &s->places));
  CT_TRY(ct_scale_plan(&s->o, s->topo, &s->places, batch, s->point, &s->n));
  for (int i = 0; i < s->n; i++)
    if (!s->point[i].threads) s->point[i].threads = ct_setup_threads(c, s->topo->threads);
  CT_TRY(dir ? ct_text_format(s->dir, sizeof s->dir, "%s", dir)
             : ct_text_format(s->dir, sizeof s->dir, "scaling/%s", c->run.name));
  s->seed = (uint64_t)c->run.seed;
  CT_TRY(key_of(s, c));
out:
  ct_setup_close(&setup);
  return rc;
}

/* ---- blocks ---- */

/* Sizes of a block in an order of its own: by a random number for each. */
static int next_of_block(const scale_t *s, int block, const int *done)
{
  int best = -1;
  uint64_t least = 0;
  for (int i = 0; i < s->n; i++) {
    uint64_t draw = ct_rng_u64(s->seed, CT_RNG_ORDER, (uint32_t)block, (uint64_t)i);
    if (done[i] || s->point[i].settled || s->point[i].blocks > block) continue;
    if (best < 0 || draw < least) best = i, least = draw;
  }
  return best;
}

static void tell(const scale_t *s, int i, int block, double seconds)
{
  const ct_scale_point_t *p = &s->point[i];
  static const char *const what[] = {"", " alone", " side by side"};
  if (s->topo->rank) return;
  ct_log(CT_LOG_INFO, "round %d: %d rank%s%s on %d node%s, batch %" PRId64 ": %.4g ms per step",
         block + 1, p->ranks, p->ranks == 1 ? "" : "s", what[p->kind], p->nodes,
         p->nodes == 1 ? "" : "s", p->batch, 1e3 * seconds);
}

static void quiet(const scale_t *s, int on)
{
  if (!ct_args_get(s->a, "log"))
    ct_log_setup(s->topo->rank, s->topo->size, on ? CT_LOG_WARN : CT_LOG_INFO);
}

/* A size that cannot be measured is a row with its reason, and no end of the study. */
static int one_point(scale_t *s, int i, int block)
{
  int rc = CT_OK;
  ct_scale_point_t *p = &s->point[i];
  ct_scale_block_t b = {.wants_timeline =
                            s->topo->rank == 0 && p->kind == CT_STUDY_RUN && !s->study.timeline};
  quiet(s, 1); /* each point would tell its device */
  s->measured++;
  int measured = ct_scale_measure(s->a, s->topo, &s->places, &s->o, p, i, &s->worlds, &b);
  quiet(s, 0);
  if (measured != CT_OK) {
    ct_err_info_t why = *ct_err_last();
    if (s->topo->rank == 0) ct_log(CT_LOG_WARN, "%d ranks: %s", p->ranks, why.text);
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_add(&s->study, p, block, &b, why.text));
    p->settled = 1;
  } else {
    double seconds = json_number_value(json_object_get(b.account, "step_s"));
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_add(&s->study, p, block, &b, NULL));
    tell(s, i, block, seconds);
    p->blocks++;
  }
out:
  json_decref(b.account);
  json_decref(b.ranks_busy_s);
  json_decref(b.conditions);
  json_decref(b.timeline);
  return rc;
}

/* What rank 0 knows of the points, to all. */
static int share_points(scale_t *s)
{
  int rc = CT_OK;
  void *data = s->point;
  size_t bytes = (size_t)s->n * sizeof s->point[0];
  CT_TRY(ct_agree_bytes(s->topo, CT_OK, &data, &bytes));
  if (s->topo->rank) {
    memcpy(s->point, data, bytes);
    ct_mem_free(data);
  }
out:
  return rc;
}

/* *out: 1: time is up; one point is always measured. */
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

static int one_block(scale_t *s, int block, int *over)
{
  int rc = CT_OK, done[CT_SCALE_POINTS] = {0};
  for (;;) {
    int i = next_of_block(s, block, done);
    if (i < 0) break;
    CT_TRY(enough(s, over));
    if (*over) break;
    done[i] = 1;
    CT_TRY(one_point(s, i, block));
  }
out:
  return rc;
}

static int all_blocks(scale_t *s)
{
  int rc = CT_OK, over = 0;
  for (int block = 0; block < CT_STUDY_BLOCKS && !over; block++) {
    int open = 0;
    CT_TRY(one_block(s, block, &over));
    CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : ct_scale_settle(&s->study, &s->o, s->point, s->n));
    CT_TRY(share_points(s));
    for (int i = 0; i < s->n; i++) {
      open += !s->point[i].settled;
      if (s->point[i].settled) ct_scale_world_drop(&s->worlds, i);
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
  CT_TRY(prepare(s));
  CT_TRY(ct_scale_machine(topo, &machine));
  CT_TRY_ALL(topo, topo->rank ? CT_OK
                              : ct_scale_open(s->dir, &s->o, topo, s->key, machine, s->point, s->n,
                                              &s->study));
  CT_TRY(share_points(s));
  ct_scale_worlds_open(topo, s->o.fresh ? 0 : 0.25, &s->worlds);
  CT_TRY(all_blocks(s));
  CT_TRY_ALL(topo, topo->rank ? CT_OK
                              : ct_scale_print(&s->study, ct_args_get(a, "predict"),
                                               ct_args_get(a, "json") != NULL));
out:
  json_decref(machine);
  if (s) {
    ct_scale_worlds_close(&s->worlds);
    ct_scale_close(&s->study);
    ct_scale_places_clear(&s->places);
  }
  ct_mem_free(s);
  return rc;
}
