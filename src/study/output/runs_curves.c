/* Charts of curves, one line per run.  Each run has a colour and a dash pattern; the table below a
 * chart is its legend, and has the numbers for readers who cannot see it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "study/output/runs.h"
#include "study/output/chart.h"

enum { MARKS = 240 };

/* Fills s->mark[MARKS] from a curve.  If the curve has more points, neighbours are averaged, and
 * low and high are the smallest and largest value of the neighbours. */
static void runs_curves_reduce(const ct_curve_t *c, int by_time, double unit_s, ct__series_t *s)
{
  s->n = c->n > MARKS ? MARKS : c->n;
  for (int64_t i = 0; i < s->n; i++) {
    int64_t from = c->n * i / s->n, to = c->n * (i + 1) / s->n;
    ct__mark_t *m = &s->mark[i];
    m->low = INFINITY;
    m->high = -INFINITY;
    for (int64_t k = from; k < to; k++) {
      m->y += c->value[k] / (double)(to - from);
      m->low = fmin(m->low, c->value[k]);
      m->high = fmax(m->high, c->value[k]);
    }
    m->x = by_time ? c->at_s[to - 1] / unit_s : (double)c->step[to - 1];
  }
}

static const char *dashes(int i)
{
  static const char *const kinds[] = {NULL, "7 3", "2 2", "9 3 2 3"};
  return kinds[(i + i / 16) % 4];
}

/* ---- the axes ---- */

typedef struct picture {
  const char *curve, *title, *label;
  int by_time;
  int falls; /* 1: the curve falls towards 0, as losses do */
} picture_t;

static double unit_of(double longest_s, const char **name)
{
  *name = longest_s > 7200 ? "hours" : longest_s > 300 ? "minutes" : "seconds";
  return longest_s > 7200 ? 3600 : longest_s > 300 ? 60 : 1;
}

static const ct_curve_t *curve_of(const ct_runs_t *c, int run, const char *name)
{
  const ct_curve_t *v = ct_runlog_curve(&c->run[run].log, name);
  return v && v->n ? v : NULL;
}

/* A curve that falls by more than a factor of 30 and stays above 0 gets a logarithmic axis. */
static void set_axes(const ct_runs_t *c, const picture_t *pic, ct__chart_t *p, double *unit_s)
{
  double steps = 1, seconds = 1e-3, low = INFINITY, high = -INFINITY;
  const char *unit;
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = curve_of(c, i, pic->curve);
    for (int64_t k = 0; v && k < v->n; k++) {
      low = fmin(low, v->value[k]);
      high = fmax(high, v->value[k]);
      steps = fmax(steps, (double)v->step[k]);
      seconds = fmax(seconds, v->at_s[k]);
    }
  }
  *unit_s = unit_of(seconds, &unit);
  p->x = pic->by_time ? (ct__axis_t){.label = unit, .to = 1.02 * seconds / *unit_s}
                      : (ct__axis_t){.label = "steps", .to = 1.02 * steps, .whole = 1};
  p->y = (ct__axis_t){.label = pic->label, .log = pic->falls && low > 0 && high > 30 * low};
}

/* ---- the table below a chart, also its legend ---- */

static int sample_of_line(int i, ct_str_t *out)
{
  const char *d = dashes(i);
  return ct_str_add(
      out,
      "<svg class=\"k\" viewBox=\"0 0 36 8\" width=\"36\" height=\"8\" "
      "aria-hidden=\"true\"><path d=\"M0 4h36\" stroke-width=\"2\" stroke=\"%s\"%s%s%s"
      "/></svg> ",
      ct__colour(i), d ? " stroke-dasharray=\"" : "", d ? d : "", d ? "\"" : "");
}

static int row(const ct_run_t *r, int i, const ct_curve_t *v, ct_str_t *out)
{
  int rc = CT_OK;
  int64_t least = 0, most = 0;
  char a[32], b[32], c[32], d[32];
  for (int64_t k = 1; k < v->n; k++) {
    if (v->value[k] < v->value[least]) least = k;
    if (v->value[k] > v->value[most]) most = k;
  }
  CT_TRY(ct_str_add(out, "<tr><td class=\"l\">"));
  CT_TRY(sample_of_line(i, out));
  CT_TRY(ct__html(out, "", r->label, ""));
  CT_TRY(ct_str_add(out, "<td>%lld<td>%s<td>%s<td>%s (%lld)<td>%s (%lld)\n", (long long)v->n,
                    ct__run_number(v->value[0], a, sizeof a),
                    ct__run_number(v->value[v->n - 1], b, sizeof b),
                    ct__run_number(v->value[least], c, sizeof c), (long long)v->step[least],
                    ct__run_number(v->value[most], d, sizeof d), (long long)v->step[most]));
out:
  return rc;
}

static int table(const ct_runs_t *c, const picture_t *pic, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<table><tr><th class=\"l\">run<th>points<th>first<th>last<th>least "
                         "(step)<th>largest (step)\n"));
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = curve_of(c, i, pic->curve);
    if (v) CT_TRY(row(&c->run[i], i, v, out));
  }
  CT_TRY(ct_str_add(out, "</table>\n"));
out:
  return rc;
}

/* ---- the charts ---- */

/* Makes the series of a run: a band where neighbours were averaged, and a line, or a point if the
 * curve has only one.  Returns the number of series. */
static int series_of(const ct_curve_t *v, int i, const picture_t *pic, double unit_s,
                     ct__mark_t *marks, ct__series_t *to)
{
  int n = 0;
  ct__series_t s = {CT__LINE, ct__colour(i), NULL, dashes(i), marks, 0, 0};
  runs_curves_reduce(v, pic->by_time, unit_s, &s);
  if (v->n > MARKS) to[n] = s, to[n++].kind = CT__BAND;
  if (s.n == 1) s.kind = CT__POINT;
  to[n++] = s;
  return n;
}

static int runs_curves_draw(const ct_runs_t *c, const picture_t *pic, ct_str_t *out)
{
  int rc = CT_OK, n = 0, reduced = 0;
  double unit_s;
  char words[200];
  ct__chart_t p = {.heading = pic->title, .description = words, .height = 300};
  ct__mark_t *marks = ct_mem_array((int64_t)c->n * MARKS, sizeof *marks, "points of curves");
  ct__series_t *s = ct_mem_array(2 * (int64_t)c->n, sizeof *s, "curves");
  if (!marks || !s) CT_TRY(CT_ERR_NOMEM);
  set_axes(c, pic, &p, &unit_s);
  snprintf(words, sizeof words, "A line for each run, over %s%s; the table below has the numbers.",
           p.x.label, p.y.log ? ", on a logarithmic axis" : "");
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = curve_of(c, i, pic->curve);
    if (v) n += series_of(v, i, pic, unit_s, marks + (size_t)i * MARKS, s + n);
    reduced |= v && v->n > MARKS;
  }
  CT_TRY(ct__chart(&p, s, n, out));
  if (reduced)
    CT_TRY(ct_str_add(out, "<p>Lines show means of neighbouring points; bands span their least and "
                           "largest values.</p>\n"));
  CT_TRY(table(c, pic, out));
out:
  ct_mem_free(marks);
  ct_mem_free(s);
  return rc;
}

static int any_has(const ct_runs_t *c, int runs, const char *curve)
{
  for (int i = 0; i < runs; i++)
    if (curve_of(c, i, curve)) return 1;
  return 0;
}

/* Appends the scores of evaluations: for each run the curves that no earlier run has. */
static int draw_scores(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < c->n; i++)
    for (int k = 0; k < c->run[i].log.curves; k++) {
      const ct_curve_t *v = &c->run[i].log.curve[k];
      char title[64];
      if (strncmp(v->name, "eval.", 5) != 0 || any_has(c, i, v->name) || v->n == 0) continue;
      snprintf(title, sizeof title, "Validation: %s", v->name + 5);
      CT_TRY(runs_curves_draw(
          c, &(picture_t){v->name, title, v->name + 5, 0, ct__run_falls(v->name)}, out));
    }
out:
  return rc;
}

int ct__runs_curves(const ct_runs_t *c, ct_str_t *out)
{
  static const picture_t first[] = {{"loss", "Training loss", "loss of a step", 0, 1},
                                    {"epoch.loss", "Training loss of epochs", "mean loss", 0, 1}},
                         last[] = {{"samples_per_s", "Speed", "samples/s", 0, 0},
                                   {"lr", "Learning rate", "learning rate", 0, 0}};
  int rc = CT_OK;
  const char *of = strncmp(c->metric, "eval.", 5) == 0 ? c->metric + 5 : c->metric;
  char title[64];
  CT_TRY(ct_str_add(out, "<h2>Curves</h2>\n"));
  for (int i = 0; i < 2; i++)
    if (any_has(c, c->n, first[i].curve)) CT_TRY(runs_curves_draw(c, &first[i], out));
  CT_TRY(draw_scores(c, out));
  snprintf(title, sizeof title, "%s over time", of);
  if (any_has(c, c->n, c->metric))
    CT_TRY(runs_curves_draw(c, &(picture_t){c->metric, title, of, 1, c->less}, out));
  for (int i = 0; i < 2; i++)
    if (any_has(c, c->n, last[i].curve)) CT_TRY(runs_curves_draw(c, &last[i], out));
out:
  return rc;
}
