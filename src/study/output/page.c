/* The page of a scaling study: HTML frame, losses, table of configurations, machine, and the rules
 * of measurement; the charts are in plots.c and timeline.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "study/output/report.h"

enum { SIZES = 64 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:56rem;"
    "margin:2rem auto;padding:0 1rem}\n"
    "svg{max-width:100%;height:auto;display:block;margin:.5rem 0}\n"
    "svg text{font:12px system-ui,sans-serif;fill:#1a1a1a}.g{stroke:#ddd}\n"
    "table{border-collapse:collapse;font-size:14px;margin:1rem 0;display:block;overflow-x:auto}\n"
    "caption{text-align:left;font-weight:600}\n"
    "th,td{padding:.15rem .45rem;text-align:right;border-bottom:1px solid #ddd;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "th{white-space:normal}\n"
    "td.l,th.l{text-align:left;white-space:normal;min-width:8rem}.s td{border-top:2px solid "
    "#555}\n"
    "i{display:inline-block;width:.8em;height:.8em}\n"
    "svg.k{display:inline;margin:0;vertical-align:middle}td.n,th.n{white-space:nowrap;min-width:0}"
    "\n"
    ".m td,.m th{text-align:center;min-width:1.4rem}\n"
    "@media "
    "print{body{max-width:none;margin:0}h2,h3{break-after:avoid}svg,tr{break-inside:avoid}}\n"
    "</style>\n";

int ct__page_begin(ct_str_t *out, const char *title)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "%s", head));
  CT_TRY(ct__html(out, "<title>", title, ""));
  CT_TRY(ct__html(out, "</title></head><body>\n<h1>", title, "</h1>\n"));
out:
  return rc;
}

int ct__page_end(ct_str_t *out)
{
  return ct_str_add(out, "</body></html>\n");
}

static const char *about_text(const ct_study_t *s, const char *key, const char *otherwise)
{
  const char *text = json_string_value(json_object_get(s->about, key));
  return text ? text : otherwise;
}

/* ---- the table of sizes ---- */

static int size_row(const ct_report_t *r, const ct_study_size_t *base, const ct_study_size_t *z,
                    ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<tr><td>%d<td>%d<td>%d<td>%g", z->nodes, z->ranks, z->threads, z->batch));
  if (!z->rounds) {
    return ct__html(out, "<td class=\"l\" colspan=\"6\">failed: ", z->error, "\n");
  }
  ct_study_ratio_t e = ct_study_efficiency(base, z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  char loss[80];
  ct_terms_loss(&t, z->breakdown.mean.step_s, loss, sizeof loss);
  CT_TRY(ct_str_add(
      out, "<td>%d<td>%.5g [%.4g, %.4g]<td>%.5g<td>%.1f [%.1f, %.1f]<td class=\"l\">%s\n",
      z->rounds, 1e3 * z->median_s, 1e3 * z->low_s, 1e3 * z->high_s, ct_study_rate(z, z->median_s),
      100 * e.median, 100 * e.low, 100 * e.high, loss));
out:
  return rc;
}

static int size_table(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<table><tr><th>nodes<th>ranks<th>threads<th>batch<th>rounds<th>step, ms "
                         "[interval]<th>samples/s<th>efficiency, %% [interval]<th class=\"l\">"
                         "largest loss -gains, %%\n"));
  for (int i = 0; i < r->study->sizes; i++)
    if (r->study->size[i].kind == CT_STUDY_RUN)
      CT_TRY(size_row(r, ct_study_base(r->study), &r->study->size[i], out));
  CT_TRY(ct_str_add(out, "</table>\n"));
out:
  return rc;
}

/* ---- losses ---- */

static int add_losses(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *z = ct__report_largest(r->study);
  ct__loss_t loss[CT__LOSSES];
  char sum[400];
  int n = ct__report_losses(r, z, loss);
  ct__report_sum(r, z, sum, sizeof sum);
  CT_TRY(ct_str_add(out, "<p><b>%s</b></p>\n", sum));
  if (n) CT_TRY(ct_str_add(out, "<ol>\n"));
  for (int i = 0; i < n; i++) {
    CT_TRY(ct__html(out, "<li>", loss[i].words, "\n"));
  }
  if (n) CT_TRY(ct_str_add(out, "</ol>\n"));
out:
  return rc;
}

/* ---- the machine ---- */

enum { NODES = 64 };

/* A value longer than the buffer is left empty. */
static int machine_row(const char *key, const json_t *value, ct_str_t *out)
{
  enum { FLAGS = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6) };
  int rc = CT_OK;
  char text[2000];
  size_t n = json_dumpb(value, text, sizeof text - 1, FLAGS);
  text[n < sizeof text ? n : 0] = '\0';
  CT_TRY(ct__html(out, "<tr><td class=\"l\">", key, "<td class=\"l\">"));
  CT_TRY(ct__html(out, "", json_is_string(value) ? json_string_value(value) : text, "\n"));
out:
  return rc;
}

static int node_cell(const json_t *value, ct_str_t *out)
{
  int rc = CT_OK;
  char number[32];
  size_t i;
  json_t *v;
  snprintf(number, sizeof number, "%.6g", json_number_value(value));
  CT_TRY(ct_str_add(out, "<td class=\"l\">"));
  if (json_is_string(value)) CT_TRY(ct__html(out, "", json_string_value(value), ""));
  if (json_is_number(value)) CT_TRY(ct__html(out, "", number, ""));
  json_array_foreach(value, i, v)
  {
    if (i) CT_TRY(ct_str_add(out, " / "));
    if (json_is_string(v)) CT_TRY(ct__html(out, "", json_string_value(v), ""));
  }
out:
  return rc;
}

/* Appends a table with a row for each node and a column for each fact. */
static int node_table(const json_t *nodes, ct_str_t *out)
{
  int rc = CT_OK;
  const char *key;
  json_t *node, *value;
  size_t i, n = json_array_size(nodes);
  CT_TRY(ct_str_add(out, "<table>\n<tr>"));
  json_object_foreach(json_array_get(nodes, 0), key, value)
  {
    CT_TRY(ct__html(out, "<th>", key, ""));
  }
  json_array_foreach(nodes, i, node)
  {
    if (i == NODES) break;
    CT_TRY(ct_str_add(out, "\n<tr>"));
    json_object_foreach(node, key, value) CT_TRY(node_cell(value, out));
  }
  CT_TRY(ct_str_add(out, "\n</table>\n"));
  if (n > NODES)
    CT_TRY(
        ct_str_add(out, "<p>The first %d of %zu nodes; all are in points.jsonl.</p>\n", NODES, n));
out:
  return rc;
}

/* Appends the highest load of a node in any measurement, and the range of clock rates. */
static int conditions(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  size_t i;
  json_t *line;
  double load = -1, slow = INFINITY, fast = 0;
  const char *host = NULL;
  json_array_foreach(r->study->lines, i, line)
  {
    double now = json_number_value(json_object_get(line, "load"));
    const json_t *clock = json_object_get(line, "clock_mhz");
    const char *where = json_string_value(json_object_get(line, "load_host"));
    if (where && now > load) load = now, host = where;
    if (json_array_size(clock) != 2) continue;
    slow = fmin(slow, json_number_value(json_array_get(clock, 0)));
    fast = fmax(fast, json_number_value(json_array_get(clock, 1)));
  }
  if (!host) return CT_OK;
  CT_TRY(ct__html(out, "<p>After the steps of a measurement the busiest node was ", host, ""));
  CT_TRY(ct_str_add(out, ", with a load of %.3g (runnable threads, mean of one minute)", load));
  if (fast > 0) CT_TRY(ct_str_add(out, "; clocks were %.4g to %.4g MHz", slow, fast));
  CT_TRY(ct_str_add(out, ".</p>\n"));
out:
  return rc;
}

/* Appends the energy per sample.  Without energy counters, the table of the machine says why. */
static int energy(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK, n = 0;
  for (int i = 0; i < r->study->sizes; i++) {
    const ct_study_size_t *z = &r->study->size[i];
    if (z->energy_samples <= 0) continue;
    CT_TRY(ct_str_add(out, "%s%d rank%s %.4g J", n++ ? ", " : "<p>Energy of a sample: ", z->ranks,
                      z->ranks == 1 ? "" : "s", z->energy_j / z->energy_samples));
  }
  if (n) CT_TRY(ct_str_add(out, "; of whole nodes, including other programs on them.</p>\n"));
out:
  return rc;
}

int ct__report_machine(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const char *key;
  json_t *value, *machine = json_object_get(r->study->about, "machine");
  CT_TRY(ct_str_add(out, "<h3>Machine and program</h3>\n<table>\n"));
  json_object_foreach(r->study->about, key,
                      value) if (value != machine && strcmp(key, "event") != 0)
      CT_TRY(machine_row(key, value, out));
  json_object_foreach(machine, key, value) if (strcmp(key, "node") != 0)
      CT_TRY(machine_row(key, value, out));
  CT_TRY(ct_str_add(out, "</table>\n"));
  if (json_array_size(json_object_get(machine, "node")))
    CT_TRY(node_table(json_object_get(machine, "node"), out));
  CT_TRY(conditions(r, out));
  CT_TRY(energy(r, out));
out:
  return rc;
}

/* ---- how it was measured ---- */

int ct__report_rules(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *base = ct_study_base(r->study), *z = ct__report_largest(r->study);
  const char *way = ct_study_is_weak(r->study) ? "weak: the batch grows with the ranks"
                                               : "strong: the batch stays the same";
  CT_TRY(ct_str_add(out,
                    "<h3>How it was measured</h3>\n<p>By the rules of Hoefler and Belli, "
                    "<cite>Scientific Benchmarking of Parallel Computing Systems</cite> (SC15):"
                    "</p><ul>\n"));
  CT_TRY(
      ct_str_add(out,
                 "<li>Base case (rule 1): %d rank%s on %d node%s, %.5g ms per step. Efficiency is "
                 "100 %% there. Scaling is %s.\n",
                 base->ranks, base->ranks == 1 ? "" : "s", base->nodes, base->nodes == 1 ? "" : "s",
                 1e3 * base->median_s, way));
  CT_TRY(ct_str_add(
      out,
      "<li>The table contains all configurations that were tried, including failed ones (rule 2)."
      "\n<li>Costs are arithmetic means, and rates are computed from them; ratios "
      "are not averaged (rules 3, 4). The time breakdown consists of means, so "
      "its terms add up to the whole step.\n"));
  if (z->covers > 0)
    CT_TRY(ct_str_add(
        out,
        "<li>Each configuration was measured in rounds (%d of the largest one). The tables show "
        "medians of rounds with a nonparametric interval from order statistics, "
        "which contains the median with a probability of at least %.1f %% (rules 5 to "
        "7); efficiency is compared round by round.\n",
        z->rounds, 100 * z->covers));
  else
    CT_TRY(ct_str_add(out,
                      "<li>The largest configuration was measured once: without an interval, "
                      "differences between configurations may be due to chance (rules 5 to 7).\n"));
  CT_TRY(ct_str_add(out, "<li>The page shows quantiles and histograms of single steps (rule 8), "
                         "machine and program (rule 9), and the ideal line and a model as bounds "
                         "(rules 11, 12).\n</ul>\n"));
out:
  return rc;
}

/* ---- all of it ---- */

static int one_study(const ct_report_t *r, ct_str_t *out)
{
  static int (*const parts[])(const ct_report_t *, ct_str_t *) = {
      ct__report_rate,  ct__report_breakdown, ct__report_model,   ct__report_steps,
      ct__report_ranks, ct__report_timeline,  ct__report_machine, ct__report_rules};
  int rc = CT_OK;
  CT_TRY(ct__html(out, "<h2>", about_text(r->study, "name", r->study->path), "</h2>\n"));
  CT_TRY(add_losses(r, out));
  CT_TRY(size_table(r, out));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    CT_TRY(parts[i](r, out));
out:
  return rc;
}

int ct_report_html(const ct_report_t *r, int n, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct__page_begin(out, "Scaling study"));
  for (int i = 0; i < n; i++)
    CT_TRY(one_study(&r[i], out));
  CT_TRY(ct__page_end(out));
out:
  return rc;
}
