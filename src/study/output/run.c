/* Reading a run's directory, and choosing the score by which runs are compared. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ckpt/ct_score.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "study/output/runs.h"

/* ---- files ---- */

/* Reads a file in the directory of the run; *text stays NULL if the file is missing. */
static int read_beside(const ct_run_t *r, const char *name, char *path, char **text, size_t *bytes)
{
  int rc = CT_OK;
  CT_TRY(ct_path_join(path, CT_PATH_MAX, r->log.dir, name));
  if (ct_file_exists(path)) CT_TRY(ct_file_read(path, text, bytes));
out:
  return rc;
}

static int read_json(const ct_run_t *r, const char *name, json_t **to)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  json_error_t why;
  CT_TRY(read_beside(r, name, path, &text, &bytes));
  if (text && !(*to = json_loadb(text, bytes, 0, &why)))
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: %s", path, why.line, why.text);
out:
  ct_mem_free(text);
  return rc;
}

static int read_config(ct_run_t *r)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  CT_TRY(read_beside(r, "config.yaml", path, &text, &bytes));
  if (text) CT_TRY(ct_yaml_parse(text, bytes, path, &r->config));
out:
  ct_mem_free(text);
  return rc;
}

int ct_run_open(const char *dir, ct_run_t *out)
{
  int rc = CT_OK;
  int64_t lines;
  *out = (ct_run_t){0};
  CT_TRY(ct_runlog_open(dir, &out->log));
  CT_TRY(ct_runlog_more(&out->log, &lines));
  if (out->log.run == 0) CT_FAIL(CT_ERR_FORMAT, "%s/metrics.jsonl: no run has begun yet", dir);
  ct_runlog_state(&out->log, (double)time(NULL), out->state, sizeof out->state);
  CT_TRY(read_config(out));
  /* while a session is running, summary.json is that of the previous session */
  if (out->log.end[0]) CT_TRY(read_json(out, "summary.json", &out->summary));
  CT_TRY(read_json(out, "trace.json", &out->trace));
out:
  if (rc != CT_OK) ct_run_close(out);
  return rc;
}

void ct_run_close(ct_run_t *r)
{
  ct_runlog_close(&r->log);
  ct_yaml_free(r->config);
  json_decref(r->summary);
  json_decref(r->trace);
  *r = (ct_run_t){0};
}

/* ---- for tables ---- */

const char *ct__run_word(const ct_run_t *r)
{
  if (r->log.end[0] || strcmp(r->state, "running") == 0) return r->state;
  return ct_runlog_is_killed(&r->log) ? "killed" : "silent";
}

double ct__run_time(const ct_run_t *r)
{
  return r->log.before_s + r->log.elapsed_s;
}

double ct__run_last(const ct_run_t *r, const char *curve)
{
  const ct_curve_t *c = ct_runlog_curve(&r->log, curve);
  return c && c->n ? c->value[c->n - 1] : NAN;
}

const char *ct__run_number(double value, char *buf, size_t cap)
{
  if (isnan(value)) return "-";
  snprintf(buf, cap, fabs(value) >= 1e4 && fabs(value) < 1e15 ? "%.0f" : "%.5g", value);
  return buf;
}

/* ---- comparing ---- */

static const char *last_part(const char *dir)
{
  const char *slash = strrchr(dir, '/');
  return slash && slash[1] ? slash + 1 : dir;
}

static void give_labels(ct_run_t *run, int n)
{
  for (int i = 0; i < n; i++) {
    int same = 0;
    for (int k = 0; k < n; k++)
      same += strcmp(run[k].log.name, run[i].log.name) == 0;
    const char *label = same > 1 ? last_part(run[i].log.dir) : run[i].log.name;
    ct_text_fit(run[i].label, sizeof run[i].label, "%s", *label ? label : run[i].log.dir);
  }
}

static int all_have(const ct_run_t *run, int n, const char *curve)
{
  for (int i = 0; i < n; i++) {
    const ct_curve_t *c = ct_runlog_curve(&run[i].log, curve);
    if (!c || c->n == 0) return 0;
  }
  return 1;
}

/* "eval.mae": the score follows the last dot; the name of a set may precede it. */
static int score_of(const char *curve)
{
  const char *dot = strrchr(curve, '.');
  return ct_score_kind(dot ? dot + 1 : curve);
}

int ct__run_falls(const char *curve)
{
  return ct_score_less_is_better(score_of(curve));
}

static int take_target(const char *text, ct_runs_t *c)
{
  int rc = CT_OK;
  const char *equal = strchr(text, '=');
  if (!equal || equal - text >= 40 || ct_text_double(equal + 1, &c->target) != CT_OK)
    CT_FAIL(CT_ERR_USAGE, "--target %s: expected SCORE=VALUE, such as top1=0.9", text);
  snprintf(c->metric, sizeof c->metric, "eval.%.*s", (int)(equal - text), text);
  if (score_of(c->metric) == CT_SCORE_OFF)
    CT_FAIL(CT_ERR_USAGE, "--target %s: '%s' is not a score; scores are %s", text, c->metric + 5,
            CT_SCORE_KINDS);
  for (int i = 0; i < c->n; i++)
    if (!all_have(&c->run[i], 1, c->metric))
      CT_FAIL(CT_ERR_USAGE, "--target %s: the run in %s did not evaluate this score", text,
              c->run[i].log.dir);
out:
  return rc;
}

static const char *run_key_of(const ct_run_t *r, const char *section, const char *key)
{
  const ct_yaml_t *v = ct_yaml_find(ct_yaml_find(r->config, section), key);
  return v && v->text ? v->text : "";
}

/* Runs without evaluations are compared by their training loss. */
static void choose_metric(ct_runs_t *c)
{
  static const char *const usual[] = {"top1", "mae", "loss"};
  const char *set = run_key_of(c->run, "eval", "watch");
  snprintf(c->metric, sizeof c->metric, "eval.%.24s%s%.16s", set, *set ? "." : "",
           run_key_of(c->run, "checkpoint", "best"));
  for (int i = 0; i < 3 && !all_have(c->run, c->n, c->metric); i++)
    snprintf(c->metric, sizeof c->metric, "eval.%s", usual[i]);
  if (!all_have(c->run, c->n, c->metric)) snprintf(c->metric, sizeof c->metric, "loss");
}

static int is_better(const ct_runs_t *c, double a, double b)
{
  return c->less ? a < b : a > b;
}

/* Chooses the target: the best value of the worst run. */
static void choose_target(ct_runs_t *c)
{
  c->target = NAN;
  c->target_chosen = 1;
  for (int i = 0; i < c->n; i++) {
    int64_t at = ct_run_best(c, &c->run[i]);
    double best = at < 0 ? NAN : ct_runlog_curve(&c->run[i].log, c->metric)->value[at];
    if (isnan(c->target) || is_better(c, c->target, best)) c->target = best;
  }
}

int ct_runs_compare(ct_run_t *run, int n, const char *target, ct_runs_t *out)
{
  int rc = CT_OK;
  *out = (ct_runs_t){.run = run, .n = n};
  give_labels(run, n);
  if (target)
    CT_TRY(take_target(target, out));
  else
    choose_metric(out);
  out->less = ct__run_falls(out->metric);
  if (!target) choose_target(out);
out:
  return rc;
}

int64_t ct_run_best(const ct_runs_t *c, const ct_run_t *r)
{
  const ct_curve_t *v = ct_runlog_curve(&r->log, c->metric);
  int64_t best = v && v->n > 0 ? 0 : -1;
  for (int64_t i = 1; v && i < v->n; i++)
    if (is_better(c, v->value[i], v->value[best])) best = i;
  return best;
}

double ct_run_time_to_target(const ct_runs_t *c, const ct_run_t *r)
{
  const ct_curve_t *v = ct_runlog_curve(&r->log, c->metric);
  for (int64_t i = 0; v && i < v->n; i++)
    if (!is_better(c, c->target, v->value[i])) return v->at_s[i];
  return NAN;
}
