/* The charts of a study's page with their texts: throughput, time breakdown, lengths of steps, busy
 * time of ranks, and the model's prediction. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "study/output/report.h"

enum { SIZES = 64, CURVE = 40 };

/* ---- throughput ---- */

int ct__report_rate(const ct_report_t *r, ct_str_t *out)
{
  const ct_study_size_t *z[SIZES];
  ct__mark_t at[SIZES] = {{0}}, ideal[2] = {{0}};
  int n = ct__report_sizes(r->study, z, SIZES);
  for (int i = 0; i < n; i++) {
    at[i] = (ct__mark_t){.x = z[i]->ranks,
                         .y = ct_study_rate(z[i], z[i]->median_s),
                         .low = ct_study_rate(z[i], z[i]->high_s),
                         .high = ct_study_rate(z[i], z[i]->low_s)};
    snprintf(at[i].text, sizeof at[i].text, "%.4g", at[i].y);
  }
  ideal[0] = at[0];
  ideal[1].x = z[n - 1]->ranks;
  ideal[1].y = at[0].y * z[n - 1]->ranks / z[0]->ranks;
  ct__chart_t c = {.heading = "Throughput",
                   .title = "Throughput against ranks",
                   .description =
                       "Samples per second of each configuration with its interval, and the ideal "
                       "line through the base configuration; both axes are logarithmic.",
                   .height = 340,
                   .x = {.label = "ranks", .log = 1, .whole = 1},
                   .y = {.label = "samples/s", .log = 1}};
  ct__series_t s[] = {{CT__LINE, "#555555", "ideal", "5 4", ideal, 2, 0},
                      {CT__LINE, ct__colour(0), NULL, NULL, at, n, 0},
                      {CT__POINT, ct__colour(0), NULL, NULL, at, n, 0}};
  return ct__chart(&c, s, 3, out);
}

/* ---- time breakdown ---- */

static const char *term_colour(int term)
{
  return term ? ct__colour(term) : "#c8d4dc";
}

/* Makes one bar: terms above zero are stacked upwards from 0, gains downwards. */
static int add_bar(ct__series_t *s, double at, const ct_study_size_t *z, const ct_terms_t *t)
{
  int rc = CT_OK;
  double up = 0, down = 0;
  for (int i = 0; i < CT_TERMS; i++) {
    double share = 100 * t->s[i] / z->breakdown.mean.step_s, *from = share > 0 ? &up : &down;
    ct__mark_t m = {.x = at - 0.38, .to = at + 0.38, .colour = term_colour(i)};
    if (fabs(share) < 0.05) continue;
    m.low = fmin(*from, *from + share);
    m.high = fmax(*from, *from + share);
    *from += share;
    snprintf(m.hint, sizeof m.hint, "%d ranks: %d %s, %.2f %%, %.4g ms per step", z->ranks, i + 1,
             ct_term_help(i), share, 1e3 * t->s[i]);
    if (fabs(share) >= 4) snprintf(m.text, sizeof m.text, "%d", i + 1);
    CT_TRY(ct__series_add(s, &m));
  }
out:
  return rc;
}

static int term_table(const ct_report_t *r, const ct_study_size_t *const *z, int n, ct_str_t *out)
{
  int rc = CT_OK;
  ct_terms_t t[SIZES];
  CT_TRY(ct_str_add(out, "<table><caption>Fraction of a step, %% (ms)</caption><tr><th>"
                         "<th>term"));
  for (int i = 0; i < n; i++) {
    t[i] = ct_scaling_terms(r->study, r->model, z[i]);
    CT_TRY(ct_str_add(out, "<th>%d rank%s", z[i]->ranks, z[i]->ranks == 1 ? "" : "s"));
  }
  for (int k = 0; k < CT_TERMS; k++) {
    double most = 0;
    for (int i = 0; i < n; i++)
      most = fmax(most, fabs(t[i].s[k]));
    if (most <= 0) continue;
    CT_TRY(ct_str_add(out, "\n<tr><td>%d<td class=\"l\"><i style=\"background:%s\"></i> %s", k + 1,
                      term_colour(k), ct_term_help(k)));
    for (int i = 0; i < n; i++)
      CT_TRY(ct_str_add(out, "<td>%.2f (%.4g)", 100 * t[i].s[k] / z[i]->breakdown.mean.step_s,
                        1e3 * t[i].s[k]));
  }
  CT_TRY(ct_str_add(out, "\n<tr class=\"s\"><td><td class=\"l\">whole step"));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(out, "<td>%.2f (%.4g)",
                      100 * ct_terms_all(&t[i]) / z[i]->breakdown.mean.step_s,
                      1e3 * ct_terms_all(&t[i])));
  CT_TRY(ct_str_add(out, "\n</table>\n"));
out:
  return rc;
}

static int with_breakdown(const ct_report_t *r, const ct_study_size_t **z)
{
  const ct_study_size_t *all[SIZES];
  int n = ct__report_sizes(r->study, all, SIZES), kept = 0;
  for (int i = 0; i < n; i++)
    if (all[i]->breakdown.steps && all[0]->breakdown.steps) z[kept++] = all[i];
  return kept;
}

int ct__report_breakdown(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *z[SIZES];
  int n = with_breakdown(r, z);
  ct__tick_t ranks[SIZES];
  ct__series_t bars = {.kind = CT__BOX};
  for (int i = 0; i < n; i++) {
    ct_terms_t t = ct_scaling_terms(r->study, r->model, z[i]);
    ranks[i].at = i + 1;
    snprintf(ranks[i].name, sizeof ranks[i].name, "%d", z[i]->ranks);
    CT_TRY(add_bar(&bars, i + 1, z[i], &t));
  }
  if (!n) return CT_OK;
  ct__chart_t c = {.heading = "Where the time goes",
                   .title = "The time breakdown of each configuration",
                   .description =
                       "A bar for each number of ranks; its parts are the terms of the "
                       "table below, by number, and add up to the whole step.  Parts below "
                       "zero are gains relative to the base configuration.",
                   .height = 400,
                   .x = {.label = "ranks", .from = 0.4, .to = n + 0.6, .tick = ranks, .ticks = n},
                   .y = {.label = "fraction of ranks x time", .unit = "%"}};
  CT_TRY(ct__chart(&c, &bars, 1, out));
  CT_TRY(term_table(r, z, n, out));
out:
  ct_mem_free(bars.mark);
  return rc;
}

/* ---- steps ---- */

static double bin_s(const json_t *bins, size_t i)
{
  return json_number_value(json_array_get(json_array_get(bins, i), 0));
}

static double bin_n(const json_t *bins, size_t i)
{
  return json_number_value(json_array_get(json_array_get(bins, i), 1));
}

static double bins_all(const json_t *bins)
{
  double n = 0;
  for (size_t i = 0; i < json_array_size(bins); i++)
    n += bin_n(bins, i);
  return n;
}

static int draw_bins(const ct_study_size_t *z, ct_str_t *out)
{
  static const double wide = 1.0905077326652577; /* eight bins per factor of 2 */
  int rc = CT_OK;
  const ct_study_breakdown_t *a = &z->breakdown;
  size_t n = json_array_size(a->bins);
  double all = bins_all(a->bins);
  char title[80], text[120];
  ct__series_t s = {.kind = CT__BOX, .colour = ct__colour(0)};
  for (size_t i = 0; i < n; i++) {
    double begin = 1e3 * bin_s(a->bins, i);
    ct__mark_t m = {.x = begin, .to = begin * wide, .high = 100 * bin_n(a->bins, i) / all};
    snprintf(m.hint, sizeof m.hint, "from %.4g ms: %.4g steps", begin, bin_n(a->bins, i));
    CT_TRY(ct__series_add(&s, &m));
  }
  snprintf(title, sizeof title, "Step durations at %d rank%s", z->ranks, z->ranks == 1 ? "" : "s");
  snprintf(text, sizeof text, "p50 %.4g, p95 %.4g, p99 %.4g, longest %.4g ms", 1e3 * a->p50_s,
           1e3 * a->p95_s, 1e3 * a->p99_s, 1e3 * a->max_s);
  double from = 1e3 * bin_s(a->bins, 0) / 1.3, to = 1e3 * bin_s(a->bins, n - 1) * 1.5;
  ct__chart_t c = {.title = title,
                   .description = text,
                   .left = title,
                   .right = text,
                   .height = 190,
                   .x = {"ms per step", from, to, .log = to > 8 * from},
                   .y = {.label = "steps", .unit = "%"}};
  CT_TRY(ct__chart(&c, &s, 1, out));
out:
  ct_mem_free(s.mark);
  return rc;
}

int ct__report_steps(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK, begun = 0;
  const ct_study_size_t *z[SIZES];
  int n = with_breakdown(r, z);
  for (int i = 0; i < n; i++) {
    if (bins_all(z[i]->breakdown.bins) <= 0) continue;
    if (!begun++) CT_TRY(ct_str_add(out, "<h3>Step durations</h3>\n"));
    CT_TRY(draw_bins(z[i], out));
  }
out:
  return rc;
}

/* ---- ranks ---- */

typedef struct busy {
  double s;
  int rank;
} busy_t;

static int by_time(const void *a, const void *b)
{
  const busy_t *x = a, *y = b;
  return (x->s < y->s) - (x->s > y->s);
}

enum { RANKS = 4096 };

static int sorted_ranks(const json_t *list, busy_t *to)
{
  int n = (int)json_array_size(list);
  n = n < RANKS ? n : RANKS;
  for (int i = 0; i < n; i++)
    to[i] = (busy_t){json_number_value(json_array_get(list, (size_t)i)), i};
  qsort(to, (size_t)n, sizeof *to, by_time);
  return n;
}

int ct__report_ranks(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  static busy_t all[RANKS];
  const ct_study_size_t *z = ct__report_largest(r->study);
  int n = z ? sorted_ranks(z->breakdown.ranks_busy_s, all) : 0;
  char text[80], heading[80];
  ct__series_t s = {.kind = CT__BOX, .colour = ct__colour(0)};
  if (n < 2 || all[0].s <= 0) return CT_OK;
  for (int i = 0; i < n; i++) {
    ct__mark_t m = {.x = i + 0.05, .to = i + 0.95, .high = 1e3 * all[i].s};
    m.colour = i == 0 ? ct__colour(3) : NULL;
    snprintf(m.hint, sizeof m.hint, "rank %d: %.5g ms", all[i].rank, m.high);
    CT_TRY(ct__series_add(&s, &m));
  }
  snprintf(text, sizeof text, "busiest: rank %d, %.4g ms; least busy: rank %d, %.4g ms",
           all[0].rank, 1e3 * all[0].s, all[n - 1].rank, 1e3 * all[n - 1].s);
  snprintf(heading, sizeof heading, "Busy time of each rank, at %d ranks", z->ranks);
  ct__chart_t c = {.heading = heading,
                   .title = "Busy time of each rank",
                   .description = text,
                   .left = text,
                   .height = 240,
                   .x = {"ranks, busiest first", 0, n, .whole = 1},
                   .y = {.label = "busy, ms per step"}};
  CT_TRY(ct__chart(&c, &s, 1, out));
out:
  ct_mem_free(s.mark);
  return rc;
}

/* ---- the model ---- */

/* Predicts the efficiency with its band at numbers of ranks that are spaced evenly on a logarithmic
 * axis; returns how many. */
static int predicted(const ct_scaling_t *m, int from, int to, ct__mark_t *at)
{
  int last = 0, n = 0;
  for (int i = 0; i < CURVE; i++) {
    int nodes = (int)round(exp2(i * log2((double)to / from) / (CURVE - 1)) * from) / m->local_ranks;
    ct_scaling_ask_t ask = {.ranks = (nodes ? nodes : 1) * m->local_ranks};
    ct_scaling_prediction_t a;
    if (m->algorithm == CT_COMM_HALVING) ask.ranks = 1 << (int)round(log2(ask.ranks));
    if (ask.ranks <= last || ct_scaling_predict(m, &ask, &a) != CT_OK) continue;
    last = ask.ranks;
    at[n++] = (ct__mark_t){.x = ask.ranks,
                           .y = 100 * a.efficiency,
                           .low = 100 * a.efficiency * a.step_s / a.high_s,
                           .high = 100 * a.efficiency * a.step_s / a.low_s};
  }
  return n;
}

static int knee_words(const ct_scaling_t *m, double below, ct_str_t *out)
{
  ct_scaling_prediction_t a;
  int ranks = ct_scaling_knee(m, below, 1 << 17, &a);
  if (!ranks)
    return ct_str_add(out, "<li>The efficiency stays above %.0f %% up to %d ranks.\n", 100 * below,
                      1 << 17);
  return ct_str_add(
      out, "<li>From %d ranks on the efficiency is below %.0f %%; the largest loss there: %s.\n",
      ranks, 100 * below, ct_term_help(ct_terms_largest(&a.terms)));
}

static int model_words(const ct_scaling_t *m, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<ul>\n"));
  if (m->fitted_between)
    CT_TRY(ct_str_add(
        out, "<li>Between nodes: %.3g us a round, %.4g GB/s, fitted to %d configurations.\n",
        1e6 * m->between.alpha_s, 1e-9 * m->between.bytes_per_s, m->fitted_between));
  if (m->fitted_inside)
    CT_TRY(ct_str_add(
        out, "<li>Inside a node: %.3g us a round, %.4g GB/s, fitted to %d configurations.\n",
        1e6 * m->inside.alpha_s, 1e-9 * m->inside.bytes_per_s, m->fitted_inside));
  CT_TRY(ct_str_add(
      out,
      "<li>Fitted to configurations of up to %d ranks, the model has an error of %+.1f %% at %d "
      "ranks: "
      "the band shows this error, growing with the distance from the measured configurations.\n",
      m->left_from, 100 * m->left_out, m->left_ranks));
  CT_TRY(knee_words(m, 0.75, out));
  CT_TRY(knee_words(m, 0.5, out));
  CT_TRY(ct_str_add(out, "</ul>\n"));
out:
  return rc;
}

int ct__report_model(const ct_report_t *r, ct_str_t *out)
{
  static const char heading[] = "Efficiency, measured and predicted";
  int rc = CT_OK;
  if (!r->model || !r->model->left_ranks) {
    const char *why =
        r->model      ? "one configuration with several ranks does not show the error of a model"
        : r->no_model ? r->no_model
                      : "the study has too few configurations";
    CT_TRY(ct_str_add(out, "<h3>%s</h3>\n", heading));
    return ct__html(out, "<p>No prediction: ", why, ".</p>\n");
  }
  const ct_study_size_t *base = ct_study_base(r->study), *z[SIZES];
  ct__mark_t curve[CURVE] = {{0}}, points[SIZES] = {{0}};
  int n = predicted(r->model, base->ranks, 4 * r->model->largest, curve),
      sizes = ct__report_sizes(r->study, z, SIZES);
  for (int i = 0; i < sizes; i++) {
    ct_study_ratio_t e = ct_study_efficiency(z[0], z[i]);
    points[i] = (ct__mark_t){
        .x = z[i]->ranks, .y = 100 * e.median, .low = 100 * e.low, .high = 100 * e.high};
  }
  ct__chart_t c = {.heading = heading,
                   .title = "Efficiency against ranks",
                   .description =
                       "Points with intervals are measured, the line is predicted by the "
                       "model, with an error band, up to four times the largest configuration.",
                   .height = 320,
                   .x = {.label = "ranks", .log = 1, .whole = 1},
                   .y = {"efficiency", 0, 115, .unit = "%"}};
  ct__series_t s[] = {{CT__BAND, ct__colour(0), NULL, NULL, curve, n, 0},
                      {CT__LINE, ct__colour(0), "model", NULL, curve, n, 0},
                      {CT__POINT, ct__colour(3), NULL, NULL, points, sizes, 0}};
  CT_TRY(ct__chart(&c, s, 3, out));
  CT_TRY(model_words(r->model, out));
out:
  return rc;
}
