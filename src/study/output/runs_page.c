/* The page of training runs: state, settings that differ, and time breakdown; curves, confusion
 * matrices and ops are in runs_curves.c and runs_detail.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "study/output/runs.h"
#include "study/output/chart.h"

/* ---- the table at the top ---- */

static int number_cell(double value, ct_str_t *out)
{
  return isnan(value) ? ct_str_add(out, "<td>-") : ct_str_add(out, "<td>%.5g", value);
}

static int time_cell(double seconds, ct_str_t *out)
{
  char text[32];
  return ct_str_add(out, "<td>%s",
                    isnan(seconds) ? "never" : ct_text_seconds(seconds, text, sizeof text));
}

static int run_row(const ct_runs_t *c, const ct_run_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  int64_t best = ct_run_best(c, r);
  const ct_curve_t *v = ct_runlog_curve(&r->log, c->metric);
  CT_TRY(ct__html(out, "<tr><td class=\"l\">", r->label, ""));
  CT_TRY(ct_str_add(out, "<td class=\"l n\">%s", r->state));
  if (r->log.run > 1) CT_TRY(ct_str_add(out, ", %lld starts", (long long)r->log.run));
  CT_TRY(ct_str_add(out, "<td>%lld<td>%lld<td>%lld", (long long)r->log.ranks,
                    (long long)r->log.nodes, (long long)r->log.step));
  CT_TRY(time_cell(ct__run_time(r), out));
  CT_TRY(number_cell(ct__run_last(r, "samples_per_s"), out));
  CT_TRY(number_cell(ct__run_last(r, "loss"), out));
  CT_TRY(number_cell(best < 0 ? NAN : v->value[best], out));
  if (best >= 0) CT_TRY(ct_str_add(out, " (%lld)", (long long)v->step[best]));
  CT_TRY(time_cell(ct_run_time_to_target(c, r), out));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

static int run_table(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  const char *score = strncmp(c->metric, "eval.", 5) == 0 ? c->metric + 5 : c->metric;
  CT_TRY(ct_str_add(out,
                    "<table><tr><th class=\"l n\">run<th class=\"l n\">state<th>ranks<th>nodes"
                    "<th>steps<th>time<th>samples/s<th>loss<th>best %s (step)<th>to %.5g\n",
                    score, c->target));
  for (int i = 0; i < c->n; i++)
    CT_TRY(run_row(c, &c->run[i], out));
  CT_TRY(ct_str_add(out, "</table>\n"));
  for (int i = 0; i < c->n; i++) {
    if (!c->run[i].log.error[0]) continue;
    CT_TRY(ct__html(out, "<p>", c->run[i].label, " ended with an error: "));
    CT_TRY(ct__html(out, "", c->run[i].log.error, "</p>\n"));
  }
  CT_TRY(ct_str_add(out,
                    "<p>%s: %s is better. The last columns show its best value with the step "
                    "after which it was evaluated, and the time until it reached %.5g%s. Times "
                    "include all sessions of a run, each from the start of the program, but not "
                    "the time between two sessions.</p>\n",
                    score, c->less ? "lower" : "higher", c->target,
                    c->target_chosen && c->n > 1 ? ", a value that all runs have reached" : ""));
out:
  return rc;
}

/* Appends a column heading for each run. */
static int run_heads(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < c->n; i++)
    CT_TRY(ct__html(out, "<th>", c->run[i].label, ""));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

/* ---- settings ---- */

enum { KEY = 160 };

/* Returns the value of a dotted key; NULL: not set. */
static const ct_yaml_t *value_at(const ct_yaml_t *root, const char *dotted)
{
  char part[KEY];
  const char *dot;
  for (; root && (dot = strchr(dotted, '.')); dotted = dot + 1) {
    snprintf(part, sizeof part, "%.*s", (int)(dot - dotted), dotted);
    root = root->kind == CT_YAML_MAP ? ct_yaml_find(root, part) : NULL;
  }
  return root && root->kind == CT_YAML_MAP ? ct_yaml_find(root, dotted) : NULL;
}

/* Writes a scalar as it is, and lists and maps as YAML in one line. */
static int value_text(const ct_yaml_t *v, ct_str_t *out)
{
  int rc = CT_OK;
  if (!v) return ct_str_add(out, "-");
  if (v->kind == CT_YAML_SCALAR) return ct_str_add(out, "%s", v->text ? v->text : "");
  CT_TRY(ct_str_add(out, v->kind == CT_YAML_LIST ? "[" : "{"));
  for (const ct_yaml_t *p = v->child; p; p = p->next) {
    if (p != v->child) CT_TRY(ct_str_add(out, ", "));
    if (p->key) CT_TRY(ct_str_add(out, "%s: ", p->key));
    CT_TRY(value_text(p, out));
  }
  CT_TRY(ct_str_add(out, v->kind == CT_YAML_LIST ? "]" : "}"));
out:
  return rc;
}

/* Appends a row for a key whose value is not the same in all runs. */
static int setting_row(const ct_runs_t *c, const char *key, int *rows, ct_str_t *out)
{
  int rc = CT_OK, differ = 0;
  ct_str_t all = {0}, one = {0}, first = {0};
  for (int i = 0; i < c->n; i++) {
    ct_str_clear(&one);
    CT_TRY(value_text(value_at(c->run[i].config, key), &one));
    if (i == 0) CT_TRY(ct_str_add(&first, "%s", one.data));
    differ |= strcmp(first.data, one.data) != 0;
    CT_TRY(ct__html(&all, "<td>", one.data, ""));
  }
  if (differ) CT_TRY(ct_str_add(out, "<tr><td class=\"l\">%s%s\n", key, all.data));
  *rows += differ;
out:
  ct_str_clear(&all);
  ct_str_clear(&one);
  ct_str_clear(&first);
  return rc;
}

/* Returns 1 for names and directories of runs, which always differ and are shown elsewhere. */
static int is_told_elsewhere(const char *key)
{
  return strcmp(key, "run.name") == 0 || strcmp(key, "run.dir") == 0;
}

/* Compares each key of a section.  A key that an earlier run has is skipped: it was compared for
 * the earlier run. */
static int setting_rows(const ct_runs_t *c, int run, const ct_yaml_t *map, const char *prefix,
                        int *rows, ct_str_t *out)
{
  int rc = CT_OK;
  for (const ct_yaml_t *v = map->child; v; v = v->next) {
    char key[KEY];
    int known = 0;
    CT_TRY(ct_text_format(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", v->key));
    if (!*prefix && v->kind == CT_YAML_MAP) {
      CT_TRY(setting_rows(c, run, v, key, rows, out));
      continue;
    }
    for (int i = 0; i < run; i++)
      known |= value_at(c->run[i].config, key) != NULL;
    if (!known && !is_told_elsewhere(key)) CT_TRY(setting_row(c, key, rows, out));
  }
out:
  return rc;
}

int ct__runs_settings(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK, rows = 0;
  if (c->n < 2) return CT_OK;
  CT_TRY(ct_str_add(out, "<h2>Settings that differ</h2>\n<table><tr><th class=\"l\">key"));
  CT_TRY(run_heads(c, out));
  for (int i = 0; i < c->n; i++)
    if (c->run[i].config) CT_TRY(setting_rows(c, i, c->run[i].config, "", &rows, out));
  CT_TRY(ct_str_add(out, "</table>\n"));
  if (!rows) CT_TRY(ct_str_add(out, "<p>None except name and directory.</p>\n"));
out:
  return rc;
}

/* ---- time ---- */

static int kind_row(const ct_runs_t *c, const char *kind, const char *words, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<tr><td class=\"l\">%s", words));
  for (int i = 0; i < c->n; i++) {
    const json_t *a = c->run[i].log.breakdown,
                 *v = json_object_get(json_object_get(a, "kinds_s"), kind);
    double step = json_number_value(json_object_get(a, "step_s"));
    if (v && step > 0)
      CT_TRY(ct_str_add(out, "<td>%.1f", 100 * json_number_value(v) / step));
    else
      CT_TRY(ct_str_add(out, "<td>-"));
  }
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

int ct__runs_breakdown(const ct_runs_t *c, ct_str_t *out)
{
  static const char *const kinds[][2] = {{"compute", "forward, loss and backward"},
                                         {"update", "weight update"},
                                         {"data", "waiting for samples"},
                                         {"move", "communication overhead"},
                                         {"wait", "waiting for gradients"},
                                         {"batchnorm", "communication of batchnorm"},
                                         {"word", "waiting for the slowest rank"},
                                         {"checkpoint", "checkpoints"},
                                         {"other", "other"}};
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<h2>Time breakdown of a step</h2>\n<table><caption>Percentage of "
                         "a step in the latest session, mean of all ranks</caption><tr><th>"));
  CT_TRY(run_heads(c, out));
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    CT_TRY(kind_row(c, kinds[k][0], kinds[k][1], out));
  CT_TRY(ct_str_add(out, "<tr class=\"s\"><td class=\"l\">step, ms"));
  for (int i = 0; i < c->n; i++) {
    const json_t *step = json_object_get(c->run[i].log.breakdown, "step_s");
    CT_TRY(number_cell(step ? 1e3 * json_number_value(step) : NAN, out));
  }
  CT_TRY(ct_str_add(out, "\n</table>\n"));
out:
  return rc;
}

/* ---- all of it ---- */

int ct_runs_html(const ct_runs_t *c, ct_str_t *out)
{
  static int (*const parts[])(const ct_runs_t *, ct_str_t *) = {
      run_table,          ct__runs_settings,  ct__runs_curves,
      ct__runs_breakdown, ct__runs_confusion, ct__runs_ops};
  int rc = CT_OK;
  CT_TRY(ct__page_begin(out, c->n == 1 ? c->run[0].label : "Training runs"));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    CT_TRY(parts[i](c, out));
  CT_TRY(ct__page_end(out));
out:
  return rc;
}
