/* Runs as a table for the terminal, as csv and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "study/output/runs.h"

/* ---- the terminal ---- */

static int text_row(const ct_runs_t *c, const ct_run_t *r, int wide, ct_str_t *out)
{
  int rc = CT_OK;
  char time[32], until[32], rate[32], best[48] = "-";
  int64_t at = ct_run_best(c, r);
  const ct_curve_t *v = ct_runlog_curve(&r->log, c->metric);
  double seconds = ct_run_time_to_target(c, r);
  if (at >= 0) snprintf(best, sizeof best, "%.5g (%lld)", v->value[at], (long long)v->step[at]);
  CT_TRY(ct_str_add(out, "  %-*s  %-8s %6lld %8lld %9s %11s %10.4g %16s %9s\n", wide, r->label,
                    ct__run_word(r), (long long)r->log.ranks, (long long)r->log.step,
                    ct_text_seconds(ct__run_time(r), time, sizeof time),
                    ct__run_number(ct__run_last(r, "samples_per_s"), rate, sizeof rate),
                    ct__run_last(r, "loss"), best,
                    isnan(seconds) ? "never" : ct_text_seconds(seconds, until, sizeof until)));
out:
  return rc;
}

int ct_runs_text(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK, wide = 3;
  char best[48], until[32];
  const char *score = strncmp(c->metric, "eval.", 5) == 0 ? c->metric + 5 : c->metric;
  for (int i = 0; i < c->n; i++)
    wide = (int)strlen(c->run[i].label) > wide ? (int)strlen(c->run[i].label) : wide;
  snprintf(best, sizeof best, "best %.20s (step)", score);
  snprintf(until, sizeof until, "to %.5g", c->target);
  CT_TRY(ct_str_add(out, "  %-*s  %-8s %6s %8s %9s %11s %10s %16s %9s\n", wide, "run", "state",
                    "ranks", "steps", "time", "samples/s", "loss", best, until));
  for (int i = 0; i < c->n; i++)
    CT_TRY(text_row(c, &c->run[i], wide, out));
  for (int i = 0; i < c->n; i++)
    if (strcmp(ct__run_word(&c->run[i]), c->run[i].state) != 0)
      CT_TRY(ct_str_add(out, "  %s: %s\n", c->run[i].label, c->run[i].state));
out:
  return rc;
}

/* ---- csv ---- */

int ct_runs_csv(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "run,curve,step,elapsed_s,value\n"));
  for (int i = 0; i < c->n; i++)
    for (int k = 0; k < c->run[i].log.curves; k++) {
      const ct_curve_t *v = &c->run[i].log.curve[k];
      for (int64_t p = 0; p < v->n; p++) {
        CT_TRY(ct_text_csv(c->run[i].label, out));
        CT_TRY(ct_str_add(out, ",%s,%lld,%.9g,%.9g\n", v->name, (long long)v->step[p], v->at_s[p],
                          v->value[p]));
      }
    }
out:
  return rc;
}

/* ---- JSON ---- */

static json_t *json_curve(const ct_curve_t *v)
{
  double least = v->value[0], largest = v->value[0];
  for (int64_t i = 1; i < v->n; i++) {
    least = fmin(least, v->value[i]);
    largest = fmax(largest, v->value[i]);
  }
  return json_pack("{s:s, s:I, s:f, s:f, s:f}", "curve", v->name, "points", (json_int_t)v->n,
                   "last", v->value[v->n - 1], "least", least, "largest", largest);
}

static json_t *json_curves(const ct_run_t *r)
{
  json_t *list = json_array();
  for (int k = 0; k < r->log.curves; k++)
    if (r->log.curve[k].n) json_array_append_new(list, json_curve(&r->log.curve[k]));
  return list;
}

static json_t *json_run(const ct_runs_t *c, const ct_run_t *r)
{
  int64_t best = ct_run_best(c, r);
  const ct_curve_t *v = ct_runlog_curve(&r->log, c->metric);
  json_t *o = json_pack(
      "{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "run", ct_json_words(r->label), "directory",
      ct_json_words(r->log.dir), "state", r->state, "starts", (json_int_t)r->log.run, "ranks",
      (json_int_t)r->log.ranks, "nodes", (json_int_t)r->log.nodes, "step", (json_int_t)r->log.step,
      "epoch", (json_int_t)r->log.epoch, "elapsed_s", json_real(ct__run_time(r)));
  json_object_set_new(o, "metric", json_string(c->metric));
  json_object_set_new(o, "best", best < 0 ? json_null() : json_real(v->value[best]));
  json_object_set_new(o, "best_step", best < 0 ? json_null() : json_integer(v->step[best]));
  json_object_set_new(o, "target", ct_json_number(c->target));
  json_object_set_new(o, "target_s", ct_json_number(ct_run_time_to_target(c, r)));
  json_object_set_new(o, "curves", json_curves(r));
  return o;
}

json_t *ct_runs_json(const ct_runs_t *c)
{
  json_t *all = json_array();
  for (int i = 0; i < c->n; i++)
    if (json_array_append_new(all, json_run(c, &c->run[i])) != 0) goto no_memory;
  return all;
no_memory:
  json_decref(all);
  ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a table of runs");
  return NULL;
}
