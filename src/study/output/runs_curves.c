/* Curves of several runs laid over each other.  A run has a colour and a dash of its own; the table
 * below a picture says which, and has its numbers for who cannot see it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "study/output/runs.h"
#include "study/output/svg.h"

enum { PLACES = 240 };

/* A curve as it is drawn: where it has more points than places, neighbours are joined. */
typedef struct drawn {
  double x[PLACES], mean[PLACES], low[PLACES], high[PLACES];
  int n, joined;
} drawn_t;

static void join(const ct_curve_t *c, int by_time, double unit_s, drawn_t *d)
{
  d->joined = c->n > PLACES;
  d->n = d->joined ? PLACES : (int)c->n;
  for (int i = 0; i < d->n; i++) {
    int64_t from = c->n * i / d->n, to = c->n * (i + 1) / d->n;
    d->mean[i] = 0;
    d->low[i] = INFINITY;
    d->high[i] = -INFINITY;
    for (int64_t k = from; k < to; k++) {
      d->mean[i] += c->value[k] / (double)(to - from);
      d->low[i] = fmin(d->low[i], c->value[k]);
      d->high[i] = fmax(d->high[i], c->value[k]);
    }
    d->x[i] = by_time ? c->at_s[to - 1] / unit_s : (double)c->step[to - 1];
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
  int falls; /* towards 0, as losses do */
} picture_t;

static double unit_of(double longest_s, const char **name)
{
  *name = longest_s > 7200 ? "hours" : longest_s > 300 ? "minutes" : "seconds";
  return longest_s > 7200 ? 3600 : longest_s > 300 ? 60 : 1;
}

/* What falls by more than a factor of 30, and stays above 0, is seen best on a logarithmic axis. */
static ct__axis_t value_axis(const ct_runs_t *c, const picture_t *pic)
{
  double low = INFINITY, high = -INFINITY;
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = ct_runlog_curve(&c->run[i].log, pic->curve);
    for (int64_t k = 0; v && k < v->n; k++) {
      low = fmin(low, v->value[k]);
      high = fmax(high, v->value[k]);
    }
  }
  int is_log = pic->falls && low > 0 && high > 30 * low;
  double room = high > low ? 0.05 * (high - low) : 0.1 * fabs(high) + 1e-9;
  if (is_log) return (ct__axis_t){pic->label, low / 1.1, high * 1.1, 1, 0, NULL};
  double from = low >= 0 && low < 0.5 * high ? 0 : low - room;
  return (ct__axis_t){pic->label, from, high + room, 0, 0, NULL};
}

static void axes(const ct_runs_t *c, const picture_t *pic, ct__plot_t *p, double *unit_s)
{
  double steps = 1, seconds = 1e-3;
  const char *unit;
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = ct_runlog_curve(&c->run[i].log, pic->curve);
    if (!v || v->n == 0) continue;
    steps = fmax(steps, (double)v->step[v->n - 1]);
    seconds = fmax(seconds, v->at_s[v->n - 1]);
  }
  *unit_s = unit_of(seconds, &unit);
  p->width = 720;
  p->height = 300;
  p->x = pic->by_time ? (ct__axis_t){unit, 0, 1.02 * seconds / *unit_s, 0, 0, NULL}
                      : (ct__axis_t){"steps", 0, 1.02 * steps, 0, 1, NULL};
  p->y = value_axis(c, pic);
}

/* ---- the table below, which is the legend, too ---- */

static int sample_of_line(int i, ct_str_t *out)
{
  const char *d = dashes(i);
  return ct_str_add(
      out,
      "<svg class=\"k\" viewBox=\"0 0 36 8\" width=\"36\" height=\"8\" "
      "aria-hidden=\"true\"><path d=\"M0 4h36\" stroke-width=\"2\" stroke=\"%s\"%s%s%s"
      "/></svg> ",
      ct__svg_colour(i), d ? " stroke-dasharray=\"" : "", d ? d : "", d ? "\"" : "");
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
  CT_TRY(ct__svg_text(out, r->label));
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
    const ct_curve_t *v = ct_runlog_curve(&c->run[i].log, pic->curve);
    if (v && v->n) CT_TRY(row(&c->run[i], i, v, out));
  }
  CT_TRY(ct_str_add(out, "</table>\n"));
out:
  return rc;
}

/* ---- the pictures ---- */

static int draw_run(ct__plot_t *p, const drawn_t *d, int i)
{
  int rc = CT_OK;
  const char *colour = ct__svg_colour(i);
  if (d->joined) CT_TRY(ct__plot_band(p, d->x, d->low, d->high, d->n, colour));
  if (d->n == 1) CT_TRY(ct__plot_point(p, d->x[0], d->mean[0], 0, 0, colour));
  if (d->n > 1) CT_TRY(ct__plot_line(p, d->x, d->mean, d->n, colour, dashes(i)));
out:
  return rc;
}

static int draw(const ct_runs_t *c, const picture_t *pic, ct_str_t *out)
{
  static drawn_t d;
  int rc = CT_OK, joined = 0;
  double unit_s;
  char words[200];
  ct__plot_t p = {.out = out};
  axes(c, pic, &p, &unit_s);
  CT_TRY(ct_str_add(out, "<h3>"));
  CT_TRY(ct__svg_text(out, pic->title));
  CT_TRY(ct_str_add(out, "</h3>\n"));
  snprintf(words, sizeof words,
           "A line for each run, over %s%s; the table below has their numbers.", p.x.label,
           p.y.log ? ", on a logarithmic axis" : "");
  CT_TRY(ct__plot_begin(&p, pic->title, words));
  for (int i = 0; i < c->n; i++) {
    const ct_curve_t *v = ct_runlog_curve(&c->run[i].log, pic->curve);
    if (!v || v->n == 0) continue;
    join(v, pic->by_time, unit_s, &d);
    joined |= d.joined;
    CT_TRY(draw_run(&p, &d, i));
  }
  CT_TRY(ct__plot_end(&p));
  if (joined)
    CT_TRY(ct_str_add(out, "<p>Lines are means of neighbouring points; bands reach from the least "
                           "to the largest of them.</p>\n"));
  CT_TRY(table(c, pic, out));
out:
  return rc;
}

static int any_has(const ct_runs_t *c, int runs, const char *curve)
{
  for (int i = 0; i < runs; i++) {
    const ct_curve_t *v = ct_runlog_curve(&c->run[i].log, curve);
    if (v && v->n) return 1;
  }
  return 0;
}

/* What evaluations measured, whatever it is: curves that no run before this one has. */
static int draw_scores(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < c->n; i++)
    for (int k = 0; k < c->run[i].log.curves; k++) {
      const ct_curve_t *v = &c->run[i].log.curve[k];
      char title[64];
      if (strncmp(v->name, "eval.", 5) != 0 || any_has(c, i, v->name) || v->n == 0) continue;
      snprintf(title, sizeof title, "Validation: %s", v->name + 5);
      CT_TRY(draw(c, &(picture_t){v->name, title, v->name + 5, 0, ct__run_falls(v->name)}, out));
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
    if (any_has(c, c->n, first[i].curve)) CT_TRY(draw(c, &first[i], out));
  CT_TRY(draw_scores(c, out));
  snprintf(title, sizeof title, "%s over time", of);
  if (any_has(c, c->n, c->metric))
    CT_TRY(draw(c, &(picture_t){c->metric, title, of, 1, c->less}, out));
  for (int i = 0; i < 2; i++)
    if (any_has(c, c->n, last[i].curve)) CT_TRY(draw(c, &last[i], out));
out:
  return rc;
}
