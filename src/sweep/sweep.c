/* `sweep`: runs `train` once for each combination of settings, each in its own directory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/ct_commands.h"
#include "setup/ct_setup.h"
#include "setup/ct_submit.h"
#include "sweep/ct_sweep.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

typedef struct sweep {
  const ct_args_t *a;
  const ct_topo_t *topo;
  ct_sweep_plan_t plan;
  int64_t part, parts; /* index and size of the job array; parts 0: this process does all runs */
  char dir[CT_PATH_MAX];
  ct_str_t base;    /* dump of the configuration; rank 0 only */
  ct_sweep_t there; /* sweep directory; rank 0 only */
  char *todo;       /* for each run: 1 if this process does it */
} sweep_t;

/* ---- arguments of one run ---- */

/* Makes the arguments `train CONFIG --set …`; dir NULL: without run.dir.  The caller frees out->set
 * and \a where. */
static int run_args(const ct_args_t *a, const ct_sweep_run_t *r, const char *dir, ct_str_t *where,
                    ct_args_t *out)
{
  static const ct_flag_t none[] = {{0}}; /* `train` does not get the options of the sweep */
  static const ct_command_t train = {.name = "train", .flags = none};
  int rc = CT_OK;
  *out = (ct_args_t){.cmd = &train, .rest = a->rest, .rests = 1, .unshown = 1};
  out->set = ct_mem_array(a->sets + r->n + 1, sizeof *out->set, "arguments");
  if (!out->set) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < a->sets; i++)
    out->set[out->sets++] = a->set[i];
  for (int i = 0; i < r->n; i++)
    out->set[out->sets++] = r->set[i];
  if (!dir) goto out;
  CT_TRY(ct_str_add(where, "run.dir="));
  char path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, dir, r->name));
  CT_TRY(ct_path_escape(path, where));
  out->set[out->sets++] = where->data;
out:
  return rc;
}

/* Local.  Checks the settings of all runs before the first one starts. */
static int check_runs(const ct_args_t *a, const ct_sweep_plan_t *p, int ranks)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < p->runs && rc == CT_OK; i++) {
    ct_args_t one;
    ct_config_t c = {0};
    rc = run_args(a, &p->run[i], NULL, NULL, &one);
    if (rc == CT_OK) rc = ct_setup_read_config(&c, a->rest[0], &one, ranks, 1);
    if (rc != CT_OK) ct_err_prefix(rc, "run '%s' of the sweep: ", p->run[i].name);
    ct_config_clear(&c);
    ct_args_clear(&one);
  }
  return rc;
}

static int read_part(const ct_args_t *a, int64_t *part, int64_t *parts)
{
  int rc = CT_OK;
  long long i = 0, n = 0;
  char rest;
  const char *text = ct_args_get(a, "part");
  if (text && (sscanf(text, "%lld/%lld%c", &i, &n, &rest) != 2 || i < 0 || n < 1 || i >= n))
    CT_FAIL(CT_ERR_USAGE, "sweep: --part %s: expected I/N, with I from 0 to N-1", text);
  *part = i;
  *parts = n;
out:
  return rc;
}

int ct_sweep_before_mpi(const ct_args_t *a, int *done)
{
  int rc = CT_OK;
  static ct_submit_t c;
  ct_sweep_plan_t plan = {0};
  char array[40];
  int64_t n;
  CT_TRY(ct_submit_wanted(a, &n));
  if (n == 0) return CT_OK;
  *done = 1;
  CT_TRY(ct_sweep_plan(a, &plan));
  CT_TRY(check_runs(a, &plan, 1));
  CT_TRY(ct_submit_begin(a, "sweep.slurm", &c));
  CT_TRY(ct_submit_add(&c, "sbatch"));
  snprintf(array, sizeof array, "--array=0-%lld", (long long)(n < plan.runs ? n : plan.runs) - 1);
  CT_TRY(ct_submit_add(&c, array));
  CT_TRY(ct_submit_add_sbatch(&c));
  CT_TRY(ct_submit_add_file(&c, "sweep.slurm"));
  CT_TRY(ct_submit_add_own(&c));
  CT_TRY(ct_submit_run(&c));
out:
  ct_sweep_plan_clear(&plan);
  return rc;
}

/* ---- preparation ---- */

static int find_directory(sweep_t *s, const ct_config_t *c)
{
  const char *dir = ct_args_get(s->a, "dir");
  char cwd[CT_PATH_MAX];
  int rc = CT_OK;
  if (!dir) return ct_text_format(s->dir, sizeof s->dir, "%s-sweep", c->run.dir);
  CT_TRY(ct_file_cwd(cwd, sizeof cwd));
  CT_TRY(ct_path_join(s->dir, sizeof s->dir, cwd, dir));
out:
  return rc;
}

/* Rank 0.  Opens the directory and selects the runs of this process. */
static int open_sweep(sweep_t *s)
{
  int rc = CT_OK;
  ct_config_t c = {0};
  json_t *there = NULL;
  int retry = ct_args_get(s->a, "retry") != NULL;
  CT_TRY(check_runs(s->a, &s->plan, s->topo->size));
  CT_TRY(ct_setup_read_config(&c, s->a->rest[0], s->a, s->topo->size, 1));
  CT_TRY(find_directory(s, &c));
  CT_TRY(ct_config_dump(&c, &s->base));
  CT_TRY(ct_sweep_open(s->dir, &s->base, &s->plan, s->part, s->parts, s->topo, &s->there));
  CT_TRY(ct_sweep_read(s->dir, &there));
  for (int64_t i = 0; i < s->plan.runs; i++) {
    const json_t *run = json_object_get(there, s->plan.run[i].name);
    const char *state = json_string_value(json_object_get(run, "state"));
    int over = strcmp(state, "done") == 0 || (strcmp(state, "failed") == 0 && !retry);
    s->todo[i] = !over && (!s->parts || i % s->parts == s->part);
  }
out:
  json_decref(there);
  ct_config_clear(&c);
  return rc;
}

/* Broadcasts rank 0's selection. */
static int sweep_share(sweep_t *s, int rc)
{
  void *todo = s->todo, *dir = s->dir;
  size_t bytes = (size_t)s->plan.runs, length = strlen(s->dir) + 1;
  CT_TRY(ct_agree_bytes(s->topo, rc, &todo, &bytes));
  if (s->topo->rank) memcpy(s->todo, todo, bytes);
  CT_TRY(ct_agree_bytes(s->topo, CT_OK, &dir, &length));
  if (s->topo->rank) memcpy(s->dir, dir, length);
out:
  if (todo != s->todo) ct_mem_free(todo);
  if (dir != s->dir) ct_mem_free(dir);
  return rc;
}

/* ---- runs ---- */

static int sweep_note(const sweep_t *s, int64_t i, const char *state, const char *error,
                      double seconds)
{
  int rc = CT_OK;
  CT_TRY_ALL(s->topo, s->topo->rank
                          ? CT_OK
                          : ct_sweep_note(&s->there, &s->plan.run[i], state, error, seconds));
out:
  return rc;
}

/* Trains one run.  If it fails, the reason is recorded and the sweep continues. */
static int one_run(const sweep_t *s, int64_t i, int *status)
{
  int rc = CT_OK;
  ct_args_t one = {0};
  ct_str_t where = {0};
  double begun = ct_clock();
  *status = 0;
  CT_TRY_ALL(s->topo, run_args(s->a, &s->plan.run[i], s->dir, &where, &one));
  CT_TRY(sweep_note(s, i, "begun", NULL, 0));
  int failed = ct_cmd_train(&one, s->topo, status);
  if (failed != CT_OK) {
    ct_err_info_t why = *ct_err_last();
    if (failed == CT_ERR_COMM) CT_TRY(failed); /* after it, further runs would fail, too */
    if (s->topo->rank == 0) ct_log(CT_LOG_WARN, "%s: %s", s->plan.run[i].name, why.text);
    CT_TRY(sweep_note(s, i, "failed", why.text, ct_clock() - begun));
  } else {
    CT_TRY(sweep_note(s, i, *status ? "stopped" : "done", NULL, ct_clock() - begun));
  }
out:
  ct_args_clear(&one);
  ct_str_clear(&where);
  return rc;
}

static int all_runs(const sweep_t *s, int *status)
{
  int rc = CT_OK;
  int64_t todo = 0, number = 0;
  for (int64_t i = 0; i < s->plan.runs; i++)
    todo += s->todo[i];
  if (s->topo->rank == 0)
    ct_log(CT_LOG_INFO, "sweep of %" PRId64 " runs in %s: %" PRId64 " to make", s->plan.runs,
           s->dir, todo);
  for (int64_t i = 0; i < s->plan.runs && !*status; i++) {
    if (!s->todo[i]) continue;
    if (s->topo->rank == 0)
      ct_log(CT_LOG_INFO, "run %" PRId64 " of %" PRId64 ": %s", ++number, todo,
             s->plan.run[i].name);
    CT_TRY(one_run(s, i, status));
  }
  if (*status && s->topo->rank == 0)
    ct_log(CT_LOG_INFO, "the sweep has stopped; the same command resumes it");
out:
  return rc;
}

static int sweep_show(const sweep_t *s, int *status)
{
  int rc = CT_OK;
  int count[2] = {0, 0};
  void *counts = count;
  size_t bytes = sizeof count;
  if (s->topo->rank == 0)
    rc = ct_sweep_print(s->dir, ct_args_get(s->a, "json") != NULL, &count[0], &count[1]);
  CT_TRY(ct_agree_bytes(s->topo, rc, &counts, &bytes));
  memcpy(count, counts, sizeof count);
  if (!*status && count[1] && !count[0]) *status = 1; /* all runs failed */
out:
  if (counts != count) ct_mem_free(counts);
  return rc;
}

int ct_cmd_sweep(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  sweep_t *s = ct_mem_alloc(sizeof *s, "a sweep");
  CT_TRY_ALL(topo, s ? CT_OK : CT_ERR_NOMEM);
  s->a = a;
  s->topo = topo;
  if (ct_args_get(a, "table")) {
    CT_TRY(ct_text_format(s->dir, sizeof s->dir, "%s", a->rest[0]));
    CT_TRY(sweep_show(s, status));
    *status = 0; /* --table only prints, so failed runs are no error */
    goto out;
  }
  CT_TRY_ALL(topo, read_part(a, &s->part, &s->parts));
  CT_TRY_ALL(topo, ct_sweep_plan(a, &s->plan));
  s->todo = ct_mem_alloc((size_t)s->plan.runs, "the runs of a sweep");
  CT_TRY_ALL(topo, s->todo ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(sweep_share(s, topo->rank == 0 ? open_sweep(s) : CT_OK));
  CT_TRY(all_runs(s, status));
  CT_TRY(sweep_show(s, status));
out:
  if (s) {
    ct_sweep_close(&s->there);
    ct_sweep_plan_clear(&s->plan);
    ct_str_clear(&s->base);
    ct_mem_free(s->todo);
  }
  ct_mem_free(s);
  return rc;
}
