/* Prints the results of a sweep: the best evaluation of each run, by the metric that decides. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/ct_sweep.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "ckpt/ct_score.h"
#include "setup/ct_config.h"
#include "telemetry/ct_runlog.h"

/* ---- one run ---- */

/* The metric that ranks the runs. */
typedef struct watched {
  int kind;
  char set[CT_OPT_FILES_NAME]; /* a set of eval.sets; "": data.val */
} watched_t;

/* Adds the best value of the metric's curve.  A run without evaluations gets its training loss; the
 * field `of` names the curve. */
static void add_best(const ct_runlog_t *log, const watched_t *w, json_t *run)
{
  char name[64];
  int kind = w->kind;
  ct_best_t best = {0};
  snprintf(name, sizeof name, "eval.%s%s%s", w->set, *w->set ? "." : "", ct_score_word(kind));
  const ct_curve_t *c = ct_runlog_curve(log, name);
  if (!c && kind == CT_SCORE_LOSS) c = ct_runlog_curve(log, "epoch.loss");
  for (int64_t i = 0; c && i < c->n; i++) {
    ct_scores_t scores;
    scores.of[kind] = c->value[i];
    ct_best_take(&best, kind, &scores, c->step[i]);
  }
  if (!best.step) return;
  json_object_set_new(run, "of", json_string(c->name));
  json_object_set_new(run, "best", ct_json_number(best.value));
  json_object_set_new(run, "best_step", json_integer(best.step));
}

/* Adds the results of a run; a run that has not started has none. */
static int add_results(const char *dir, const char *name, const watched_t *w, json_t *run)
{
  int rc = CT_OK;
  int64_t lines;
  char path[CT_PATH_MAX], metrics[CT_PATH_MAX];
  ct_runlog_t *log = ct_mem_alloc(sizeof *log, "a run's metrics");
  if (!log) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_path_join(path, sizeof path, dir, name));
  CT_TRY(ct_path_join(metrics, sizeof metrics, path, "metrics.jsonl"));
  CT_TRY(ct_runlog_open(path, log));
  if (!ct_file_exists(metrics)) goto out;
  CT_TRY(ct_runlog_more(log, &lines));
  const ct_curve_t *loss = ct_runlog_curve(log, "epoch.loss");
  if (!loss || !loss->n) loss = ct_runlog_curve(log, "loss");
  if (loss && loss->n)
    json_object_set_new(run, "final_loss", ct_json_number(loss->value[loss->n - 1]));
  json_object_set_new(run, "step", json_integer(log->step));
  add_best(log, w, run);
out:
  if (log) ct_runlog_close(log);
  ct_mem_free(log);
  return rc;
}

/* ---- all runs ---- */

/* Finds the metric: that of checkpoint.best, else the loss, on the set of eval.watch. */
static int metric_of(const char *dir, watched_t *w)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_config_t c = {0};
  CT_TRY(ct_path_join(path, sizeof path, dir, "base.yaml"));
  CT_TRY(ct_config_read(&c, path, NULL, 0));
  w->kind = c.checkpoint.best == CT_SCORE_OFF ? CT_SCORE_LOSS : c.checkpoint.best;
  snprintf(w->set, sizeof w->set, "%s", c.eval.watch);
out:
  ct_config_clear(&c);
  return rc;
}

/* Returns 1 if run a ranks before run b.  Runs without a result come last. */
static int is_before(const json_t *a, const json_t *b, int kind)
{
  ct_best_t best = {0};
  ct_scores_t first, second;
  const json_t *x = json_object_get(a, "best"), *y = json_object_get(b, "best");
  first.of[kind] = json_is_number(y) ? json_number_value(y) : NAN;
  second.of[kind] = json_is_number(x) ? json_number_value(x) : NAN;
  ct_best_take(&best, kind, &first, 1);
  return ct_best_take(&best, kind, &second, 2) && json_is_number(x);
}

static int sort_in(json_t *order, json_t *run, int kind)
{
  size_t i = json_array_size(order);
  while (i > 0 && is_before(run, json_array_get(order, i - 1), kind))
    i--;
  return json_array_insert(order, i, run) == 0
             ? CT_OK
             : ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a table");
}

static int table_collect(const char *dir, const watched_t *w, json_t *order)
{
  int rc = CT_OK;
  const char *name;
  json_t *runs = NULL, *run;
  CT_TRY(ct_sweep_read(dir, &runs));
  json_object_foreach(runs, name, run)
  {
    CT_TRY(add_results(dir, name, w, run));
    json_object_del(run, "time");
    CT_TRY(sort_in(order, run, w->kind));
  }
out:
  json_decref(runs);
  return rc;
}

/* ---- printing ---- */

static const char *table_text_of(const json_t *run, const char *key)
{
  const char *text = json_string_value(json_object_get(run, key));
  return text ? text : "";
}

static int add_number(const json_t *run, const char *key, int width, ct_str_t *out)
{
  const json_t *v = json_object_get(run, key);
  if (!json_is_number(v)) return ct_str_add(out, "  %*s", width, "-");
  return ct_str_add(out, "  %*.6g", width, json_number_value(v));
}

static int add_rows(const json_t *order, const char *metric, ct_str_t *out)
{
  int rc = CT_OK, width = 3;
  for (size_t i = 0; i < json_array_size(order); i++) {
    int len = (int)strlen(table_text_of(json_array_get(order, i), "name"));
    width = len > width ? len : width;
  }
  CT_TRY(ct_str_add(out, "%-*s  %10s  %8s  %10s  %8s  %s\n", width, "run", metric, "at step",
                    "final loss", "time", "state"));
  for (size_t i = 0; i < json_array_size(order); i++) {
    const json_t *run = json_array_get(order, i);
    char time[32];
    double seconds = json_number_value(json_object_get(run, "seconds"));
    CT_TRY(ct_str_add(out, "%-*s", width, table_text_of(run, "name")));
    CT_TRY(add_number(run, "best", 10, out));
    CT_TRY(add_number(run, "best_step", 8, out));
    CT_TRY(add_number(run, "final_loss", 10, out));
    CT_TRY(ct_str_add(out, "  %8s  %s%s%s\n", ct_text_seconds(seconds, time, sizeof time),
                      table_text_of(run, "state"), json_object_get(run, "error") ? ": " : "",
                      table_text_of(run, "error")));
  }
out:
  return rc;
}

static int table_add_text(const char *dir, const json_t *order, int kind, ct_str_t *out)
{
  int rc = CT_OK;
  const json_t *best = json_array_get(order, 0);
  const char *of = table_text_of(best, "of");
  int trained = strcmp(of, "epoch.loss") == 0;
  char metric[48];
  snprintf(metric, sizeof metric, "%s", trained ? "train loss" : ct_score_word(kind));
  CT_TRY(add_rows(order, metric, out));
  if (!*of) goto out;
  CT_TRY(ct_str_add(out,
                    "best: %s, by %s%s\nto continue it: ctrain-hpc train '%s/%s/config.yaml' --set "
                    "train.epochs=...\n",
                    table_text_of(best, "name"), trained ? "" : "the evaluations' ", metric, dir,
                    table_text_of(best, "name")));
out:
  return rc;
}

static int table_count(const json_t *order, const char *state)
{
  int n = 0;
  for (size_t i = 0; i < json_array_size(order); i++)
    n += strcmp(table_text_of(json_array_get(order, i), "state"), state) == 0;
  return n;
}

int ct_sweep_print(const char *dir, int as_json, int *done, int *failed)
{
  int rc = CT_OK;
  watched_t w;
  json_t *order = json_array(), *all = NULL;
  ct_str_t text = {0};
  if (!order) CT_FAIL(CT_ERR_NOMEM, "no memory for a table");
  CT_TRY(metric_of(dir, &w));
  CT_TRY(table_collect(dir, &w, order));
  if (as_json) {
    all = json_pack("{s:o, s:s, s:O}", "dir", ct_json_words(dir), "metric", ct_score_word(w.kind),
                    "runs", order);
    CT_TRY(ct_json_add(all, &text));
  } else {
    CT_TRY(table_add_text(dir, order, w.kind, &text));
  }
  if (done) *done = table_count(order, "done");
  if (failed) *failed = table_count(order, "failed");
  CT_TRY(ct_app_print(text.data));
out:
  json_decref(all);
  json_decref(order);
  ct_str_clear(&text);
  return rc;
}
