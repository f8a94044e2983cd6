/* The pictures of a page, each with its words: how fast, where the time goes, how steps and ranks
 * differ, what the model says. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "study/output/report.h"

enum { SIZES = 64, CURVE = 40 };

static ct__plot_t plot(ct_str_t *out, double height)
{
  return (ct__plot_t){.out = out, .width = 720, .height = height};
}

/* ---- throughput ---- */

static ct__plot_t rate_plot(const ct_study_size_t *const *z, int n, double most, ct_str_t *out)
{
  ct__plot_t p = plot(out, 340);
  double least = INFINITY;
  for (int i = 0; i < n; i++)
    least = fmin(least, ct_study_rate(z[i], z[i]->high_s));
  p.x = (ct__axis_t){"ranks", 0.9 * z[0]->ranks, 1.15 * z[n - 1]->ranks, 1, 1, NULL};
  p.y = (ct__axis_t){"samples/s", 0.8 * least, 1.25 * most, 1, 0, NULL};
  return p;
}

static int draw_ideal(ct__plot_t *p, const ct_study_size_t *base, int ranks)
{
  int rc = CT_OK;
  double rate = ct_study_rate(base, base->median_s) / base->ranks, to = ranks;
  double x[] = {base->ranks, to}, y[] = {rate * base->ranks, rate * to};
  CT_TRY(ct__plot_line(p, x, y, 2, "#555555", "5 4"));
  CT_TRY(ct__plot_text(p, to, y[1], -6, -8, "end", "ideal"));
out:
  return rc;
}

int ct__report_rate(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *z[SIZES];
  double x[SIZES], y[SIZES];
  int n = ct__report_sizes(r->study, z, SIZES);
  double ideal = ct_study_rate(z[0], z[0]->median_s) * z[n - 1]->ranks / z[0]->ranks, most = ideal;
  for (int i = 0; i < n; i++) {
    x[i] = z[i]->ranks;
    y[i] = ct_study_rate(z[i], z[i]->median_s);
    most = fmax(most, y[i]);
  }
  ct__plot_t p = rate_plot(z, n, most, out);
  CT_TRY(ct_str_add(out, "<h3>Throughput</h3>\n"));
  CT_TRY(ct__plot_begin(&p, "Throughput against ranks",
                        "Samples a second of each size with its interval, and the ideal line "
                        "through the base size; both axes are logarithmic."));
  CT_TRY(draw_ideal(&p, z[0], z[n - 1]->ranks));
  CT_TRY(ct__plot_line(&p, x, y, n, ct__svg_colour(0), NULL));
  for (int i = 0; i < n; i++) {
    char text[40];
    CT_TRY(ct__plot_point(&p, x[i], y[i], ct_study_rate(z[i], z[i]->high_s),
                          ct_study_rate(z[i], z[i]->low_s), ct__svg_colour(0)));
    snprintf(text, sizeof text, "%.4g", y[i]);
    CT_TRY(ct__plot_text(&p, x[i], y[i], 8, 16, "start", text));
  }
  CT_TRY(ct__plot_end(&p));
out:
  return rc;
}

/* ---- the account ---- */

/* One bar: terms above zero upwards from 0, gains below. */
static int draw_bar(ct__plot_t *p, double at, const ct_study_size_t *z, const ct_terms_t *t)
{
  int rc = CT_OK;
  double up = 0, down = 0, all = z->account.mean.step_s;
  for (int i = 0; i < CT_TERMS; i++) {
    double share = 100 * t->s[i] / all, *from = share > 0 ? &up : &down;
    char hint[200], text[24];
    if (fabs(share) < 0.05) continue;
    snprintf(hint, sizeof hint, "%d ranks: %d %s, %.2f %%, %.4g ms a step", z->ranks, i + 1,
             ct_term_help(i), share, 1e3 * t->s[i]);
    CT_TRY(ct__plot_box(p, at - 0.38, at + 0.38, *from, *from + share,
                        i ? ct__svg_colour(i) : "#c8d4dc", hint));
    snprintf(text, sizeof text, "%d", i + 1);
    if (fabs(share) >= 4) CT_TRY(ct__plot_text(p, at, *from + share / 2, 0, 4, "middle", text));
    *from += share;
  }
  char ranks[24];
  snprintf(ranks, sizeof ranks, "%d", z->ranks);
  CT_TRY(ct__plot_text(p, at, fmin(p->y.from, 0), 0, 16, "middle", ranks));
out:
  return rc;
}

static int term_table(const ct_report_t *r, const ct_study_size_t *const *z, int n, ct_str_t *out)
{
  int rc = CT_OK;
  ct_terms_t t[SIZES];
  CT_TRY(ct_str_add(out, "<table><caption>Share of a step, %% (ms)</caption><tr><th>"
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
                      k ? ct__svg_colour(k) : "#c8d4dc", ct_term_help(k)));
    for (int i = 0; i < n; i++)
      CT_TRY(ct_str_add(out, "<td>%.2f (%.4g)", 100 * t[i].s[k] / z[i]->account.mean.step_s,
                        1e3 * t[i].s[k]));
  }
  CT_TRY(ct_str_add(out, "\n<tr class=\"s\"><td><td class=\"l\">all of the step"));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(out, "<td>%.2f (%.4g)", 100 * ct_terms_all(&t[i]) / z[i]->account.mean.step_s,
                      1e3 * ct_terms_all(&t[i])));
  CT_TRY(ct_str_add(out, "\n</table>\n"));
out:
  return rc;
}

static int with_account(const ct_report_t *r, const ct_study_size_t **z)
{
  const ct_study_size_t *all[SIZES];
  int n = ct__report_sizes(r->study, all, SIZES), kept = 0;
  for (int i = 0; i < n; i++)
    if (all[i]->account.steps && all[0]->account.steps) z[kept++] = all[i];
  return kept;
}

int ct__report_account(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *z[SIZES];
  int n = with_account(r, z);
  double low = 0;
  ct__plot_t p = plot(out, 400);
  if (!n) return CT_OK;
  for (int i = 0; i < n; i++) {
    ct_terms_t t = ct_scaling_terms(r->study, r->model, z[i]);
    double gains = 0;
    for (int k = 0; k < CT_TERMS; k++)
      gains += fmin(t.s[k], 0);
    low = fmin(low, 100 * gains / z[i]->account.mean.step_s);
  }
  p.x = (ct__axis_t){NULL, 0.4, n + 0.6, 0, 1, NULL};
  p.y = (ct__axis_t){"share of ranks x time", fmin(low, 0), 100 - low, 0, 0, "%"};
  CT_TRY(ct_str_add(out, "<h3>Where the time goes</h3>\n"));
  CT_TRY(ct__plot_begin(&p, "The account of each size",
                        "A bar for each number of ranks; its parts are the terms of the table "
                        "below, by number, and add up to all of the time.  What is below zero is "
                        "a gain against the base size."));
  for (int i = 0; i < n; i++) {
    ct_terms_t t = ct_scaling_terms(r->study, r->model, z[i]);
    CT_TRY(draw_bar(&p, i + 1, z[i], &t));
  }
  CT_TRY(ct__plot_text(&p, (n + 1) / 2., fmin(low, 0), 0, 38, "middle", "ranks"));
  CT_TRY(ct__plot_end(&p));
  CT_TRY(term_table(r, z, n, out));
out:
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
  static const double wide = 1.0905077326652577; /* eight to a factor of 2 */
  int rc = CT_OK;
  const ct_study_account_t *a = &z->account;
  size_t n = json_array_size(a->bins);
  double all = bins_all(a->bins), most = 0;
  char title[80], text[120];
  ct__plot_t p = plot(out, 190);
  for (size_t i = 0; i < n; i++)
    most = fmax(most, 100 * bin_n(a->bins, i) / all);
  snprintf(title, sizeof title, "Lengths of steps at %d rank%s", z->ranks,
           z->ranks == 1 ? "" : "s");
  p.x = (ct__axis_t){
      "ms a step", 1e3 * bin_s(a->bins, 0) / 1.3, 1e3 * bin_s(a->bins, n - 1) * 1.5, 0, 0, NULL};
  p.x.log = p.x.to > 8 * p.x.from;
  p.y = (ct__axis_t){"steps", 0, 1.25 * most, 0, 0, "%"};
  snprintf(text, sizeof text, "p50 %.4g, p95 %.4g, p99 %.4g, longest %.4g ms", 1e3 * a->p50_s,
           1e3 * a->p95_s, 1e3 * a->p99_s, 1e3 * a->max_s);
  CT_TRY(ct__plot_begin(&p, title, text));
  for (size_t i = 0; i < n; i++) {
    double begin = 1e3 * bin_s(a->bins, i), share = 100 * bin_n(a->bins, i) / all;
    char hint[80];
    snprintf(hint, sizeof hint, "from %.4g ms: %.4g steps", begin, bin_n(a->bins, i));
    CT_TRY(ct__plot_box(&p, begin, begin * wide, 0, share, ct__svg_colour(0), hint));
  }
  CT_TRY(ct__plot_text(&p, p.x.from, p.y.to, 8, 12, "start", title));
  CT_TRY(ct__plot_text(&p, p.x.to, p.y.to, -4, 12, "end", text));
  CT_TRY(ct__plot_end(&p));
out:
  return rc;
}

int ct__report_steps(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK, begun = 0;
  const ct_study_size_t *z[SIZES];
  int n = with_account(r, z);
  for (int i = 0; i < n; i++) {
    if (bins_all(z[i]->account.bins) <= 0) continue;
    if (!begun++) CT_TRY(ct_str_add(out, "<h3>How long steps are</h3>\n"));
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
  int n = z ? sorted_ranks(z->account.ranks_busy_s, all) : 0;
  ct__plot_t p = plot(out, 240);
  char text[80];
  if (n < 2 || all[0].s <= 0) return CT_OK;
  p.x = (ct__axis_t){"ranks, the busiest first", 0, n, 0, 1, NULL};
  p.y = (ct__axis_t){"busy, ms a step", 0, 1.15e3 * all[0].s, 0, 0, NULL};
  CT_TRY(ct_str_add(out, "<h3>Busy time of each rank, at %d ranks</h3>\n", z->ranks));
  snprintf(text, sizeof text, "rank %d: %.4g ms, the least busy, rank %d: %.4g ms", all[0].rank,
           1e3 * all[0].s, all[n - 1].rank, 1e3 * all[n - 1].s);
  CT_TRY(ct__plot_begin(&p, "Busy time of each rank", text));
  for (int i = 0; i < n; i++) {
    char hint[60];
    snprintf(hint, sizeof hint, "rank %d: %.5g ms", all[i].rank, 1e3 * all[i].s);
    CT_TRY(ct__plot_box(&p, i + 0.05, i + 0.95, 0, 1e3 * all[i].s, ct__svg_colour(i == 0 ? 3 : 0),
                        hint));
  }
  CT_TRY(ct__plot_text(&p, 0, 1e3 * all[0].s, 8, -6, "start", text));
  CT_TRY(ct__plot_end(&p));
out:
  return rc;
}

/* ---- the model ---- */

/* Efficiency with its band, at numbers of ranks that lie evenly between two. */
typedef struct curve {
  double x[CURVE], y[CURVE], low[CURVE], high[CURVE];
  int n;
} curve_t;

static curve_t predicted(const ct_scaling_t *m, int from, int to)
{
  curve_t c = {.n = 0};
  int last = 0;
  for (int i = 0; i < CURVE; i++) {
    int nodes = (int)round(exp2(i * log2((double)to / from) / (CURVE - 1)) * from) / m->local_ranks;
    ct_scaling_ask_t ask = {.ranks = (nodes ? nodes : 1) * m->local_ranks};
    ct_scaling_answer_t a;
    if (m->algorithm == CT_COMM_HALVING) ask.ranks = 1 << (int)round(log2(ask.ranks));
    if (ask.ranks <= last || ct_scaling_predict(m, &ask, &a) != CT_OK) continue;
    last = ask.ranks;
    c.x[c.n] = ask.ranks;
    c.y[c.n] = 100 * a.efficiency;
    c.low[c.n] = 100 * a.efficiency * a.step_s / a.high_s;
    c.high[c.n++] = 100 * a.efficiency * a.step_s / a.low_s;
  }
  return c;
}

static int draw_efficiency(ct__plot_t *p, const ct_report_t *r)
{
  int rc = CT_OK;
  const ct_study_size_t *z[SIZES];
  int n = ct__report_sizes(r->study, z, SIZES);
  for (int i = 0; i < n; i++) {
    ct_study_ratio_t e = ct_study_efficiency(z[0], z[i]);
    CT_TRY(ct__plot_point(p, z[i]->ranks, 100 * e.median, 100 * e.low, 100 * e.high,
                          ct__svg_colour(3)));
  }
out:
  return rc;
}

static int knee_words(const ct_scaling_t *m, double below, ct_str_t *out)
{
  ct_scaling_answer_t a;
  int ranks = ct_scaling_knee(m, below, 1 << 17, &a);
  if (!ranks)
    return ct_str_add(out, "<li>The efficiency stays above %.0f %% up to %d ranks.\n", 100 * below,
                      1 << 17);
  return ct_str_add(out, "<li>From %d ranks on it is below %.0f %%; what costs most there: %s.\n",
                    ranks, 100 * below, ct_term_help(ct_terms_largest(&a.terms)));
}

static int model_words(const ct_scaling_t *m, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<ul>\n"));
  if (m->fitted_between)
    CT_TRY(ct_str_add(out, "<li>Between nodes: %.3g us a round, %.4g GB/s, fitted to %d sizes.\n",
                      1e6 * m->between.alpha_s, 1e-9 * m->between.bytes_per_s, m->fitted_between));
  if (m->fitted_inside)
    CT_TRY(ct_str_add(out, "<li>Inside a node: %.3g us a round, %.4g GB/s, fitted to %d sizes.\n",
                      1e6 * m->inside.alpha_s, 1e-9 * m->inside.bytes_per_s, m->fitted_inside));
  CT_TRY(ct_str_add(out,
                    "<li>Fitted to sizes of up to %d ranks, it is %+.1f %% off at %d: the band "
                    "is made of this error, and wider the further it reaches.\n",
                    m->left_from, 100 * m->left_out, m->left_ranks));
  CT_TRY(knee_words(m, 0.75, out));
  CT_TRY(knee_words(m, 0.5, out));
  CT_TRY(ct_str_add(out, "</ul>\n"));
out:
  return rc;
}

int ct__report_model(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  ct__plot_t p = plot(out, 320);
  CT_TRY(ct_str_add(out, "<h3>Efficiency, measured and predicted</h3>\n"));
  if (!r->model || !r->model->left_ranks) {
    const char *why = r->model ? "one size with several ranks does not tell how far a model reaches"
                      : r->no_model ? r->no_model
                                    : "there are too few sizes";
    CT_TRY(ct_str_add(out, "<p>No prediction: "));
    CT_TRY(ct__svg_text(out, why));
    CT_TRY(ct_str_add(out, ".</p>\n"));
    return CT_OK;
  }
  const ct_study_size_t *base = ct_study_base(r->study);
  curve_t c = predicted(r->model, base->ranks, 4 * r->model->largest);
  p.x = (ct__axis_t){"ranks", 0.9 * base->ranks, 4.5 * r->model->largest, 1, 1, NULL};
  p.y = (ct__axis_t){"efficiency", 0, 115, 0, 0, "%"};
  CT_TRY(ct__plot_begin(&p, "Efficiency against ranks",
                        "Points with intervals are measured, the line is the model's, with its "
                        "band; it goes to four times the largest size."));
  CT_TRY(ct__plot_band(&p, c.x, c.low, c.high, c.n, ct__svg_colour(0)));
  CT_TRY(ct__plot_line(&p, c.x, c.y, c.n, ct__svg_colour(0), NULL));
  if (c.n) CT_TRY(ct__plot_text(&p, c.x[c.n - 1], c.y[c.n - 1], 0, -10, "end", "model"));
  CT_TRY(draw_efficiency(&p, r));
  CT_TRY(ct__plot_end(&p));
  CT_TRY(model_words(r->model, out));
out:
  return rc;
}
