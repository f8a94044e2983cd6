/* Sections about single runs: confusion matrix and slowest ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ct_op.h"
#include "base/ct_err.h"
#include "study/output/runs.h"
#include "study/output/chart.h"

/* ---- the confusion matrix ---- */

enum { SHOWN = 25, PAIRS = 12 };

static double cell(const json_t *m, size_t label, size_t predicted)
{
  return json_number_value(json_array_get(json_array_get(m, label), predicted));
}

static double row_sum(const json_t *m, size_t label)
{
  double sum = 0;
  for (size_t k = 0; k < json_array_size(m); k++)
    sum += cell(m, label, k);
  return sum;
}

/* Shades repeat the numbers: green on the diagonal, orange off it. */
static int matrix(const json_t *m, ct_str_t *out)
{
  int rc = CT_OK;
  size_t n = json_array_size(m);
  CT_TRY(ct_str_add(out, "<table class=\"m\"><caption>Rows: true class; columns: predicted "
                         "class</caption><tr><th>"));
  for (size_t k = 0; k < n; k++)
    CT_TRY(ct_str_add(out, "<th>%zu", k));
  for (size_t i = 0; i < n; i++) {
    double all = row_sum(m, i);
    CT_TRY(ct_str_add(out, "\n<tr><th>%zu", i));
    for (size_t k = 0; k < n; k++) {
      double share = all > 0 ? cell(m, i, k) / all : 0;
      if (share > 0)
        CT_TRY(ct_str_add(out, "<td style=\"background:rgba(%s,%.2f)\">%.0f",
                          i == k ? "0,158,115" : "230,159,0", 0.1 + 0.5 * sqrt(share),
                          cell(m, i, k)));
      else
        CT_TRY(ct_str_add(out, "<td>"));
    }
  }
  CT_TRY(ct_str_add(out, "\n</table>\n"));
out:
  return rc;
}

typedef struct pair {
  size_t label, predicted;
  double count;
} pair_t;

/* Inserts p into a list of the PAIRS largest. */
static void runs_detail_keep(pair_t *most, int *n, pair_t p)
{
  int at = *n;
  while (at > 0 && most[at - 1].count < p.count)
    at--;
  if (at == PAIRS) return;
  if (*n < PAIRS) ++*n;
  memmove(&most[at + 1], &most[at], (size_t)(*n - 1 - at) * sizeof *most);
  most[at] = p;
}

static int pairs(const json_t *m, ct_str_t *out)
{
  int rc = CT_OK, n = 0;
  pair_t most[PAIRS];
  for (size_t i = 0; i < json_array_size(m); i++)
    for (size_t k = 0; k < json_array_size(m); k++)
      if (i != k && cell(m, i, k) > 0) runs_detail_keep(most, &n, (pair_t){i, k, cell(m, i, k)});
  if (!n) return ct_str_add(out, "<p>No sample was misclassified.</p>\n");
  CT_TRY(ct_str_add(out, "<table><caption>Most frequent errors</caption><tr><th>true class"
                         "<th>predicted<th>samples<th>of the class, %%\n"));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(out, "<tr><td>%zu<td>%zu<td>%.0f<td>%.1f\n", most[i].label, most[i].predicted,
                      most[i].count, 100 * most[i].count / row_sum(m, most[i].label)));
  CT_TRY(ct_str_add(out, "</table>\n"));
out:
  return rc;
}

static int run_heading(const ct_runs_t *c, int i, ct_str_t *out)
{
  int rc = CT_OK;
  if (c->n == 1) return CT_OK;
  CT_TRY(ct__html(out, "<h3>", c->run[i].label, "</h3>\n"));
out:
  return rc;
}

int ct__runs_confusion(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK, headed = 0;
  for (int i = 0; i < c->n; i++) {
    const json_t *m = json_object_get(c->run[i].summary, "confusion");
    if (!json_array_size(m)) continue;
    if (!headed++) CT_TRY(ct_str_add(out, "<h2>Confusion matrix of the last evaluation</h2>\n"));
    CT_TRY(run_heading(c, i, out));
    if (json_array_size(m) <= SHOWN) CT_TRY(matrix(m, out));
    CT_TRY(pairs(m, out));
  }
out:
  return rc;
}

/* ---- ops ---- */

enum { OPS = 512, TOLD = 12 };

typedef struct op {
  const char *name; /* of the JSON */
  double us;
  long count;
} op_t;

/* "conv backward 7": the kind of an op first, its index in the plan last. */
static int is_op(const json_t *event, const char *name)
{
  const char *ph = json_string_value(json_object_get(event, "ph"));
  if (!name || !strchr(name, ' ') || !ph || strcmp(ph, "X") != 0) return 0;
  if (json_integer_value(json_object_get(event, "tid")) != 0) return 0;
  for (int kind = 0; kind < CT_OP_COUNT; kind++) {
    const char *word = ct_op_name((ct_op_kind_t)kind);
    size_t n = strlen(word);
    if (strncmp(name, word, n) == 0 && name[n] == ' ') return 1;
  }
  return 0;
}

static int runs_detail_collect(const json_t *events, op_t *op)
{
  int n = 0;
  size_t i;
  json_t *e;
  json_array_foreach(events, i, e)
  {
    const char *name = json_string_value(json_object_get(e, "name"));
    int k = 0;
    if (!is_op(e, name)) continue;
    while (k < n && strcmp(op[k].name, name) != 0)
      k++;
    if (k == OPS) continue;
    if (k == n) op[n++] = (op_t){.name = name};
    op[k].us += json_number_value(json_object_get(e, "dur"));
    op[k].count++;
  }
  return n;
}

static int by_time(const void *a, const void *b)
{
  const op_t *p = a, *q = b;
  return (p->us < q->us) - (p->us > q->us);
}

static int op_table(const json_t *trace, ct_str_t *out)
{
  static op_t op[OPS];
  int rc = CT_OK, n = runs_detail_collect(json_object_get(trace, "traceEvents"), op);
  double all = 0;
  if (!n) return ct_str_add(out, "<p>The trace contains no ops.</p>\n");
  for (int i = 0; i < n; i++)
    all += op[i].us;
  qsort(op, (size_t)n, sizeof *op, by_time);
  CT_TRY(ct_str_add(out, "<table><tr><th class=\"l\">op<th>runs<th>ms, mean<th>of all ops, %%\n"));
  for (int i = 0; i < n && i < TOLD; i++) {
    CT_TRY(ct__html(out, "<tr><td class=\"l\">", op[i].name, ""));
    CT_TRY(ct_str_add(out, "<td>%ld<td>%.4g<td>%.1f\n", op[i].count,
                      1e-3 * op[i].us / (double)op[i].count, 100 * op[i].us / all));
  }
  CT_TRY(ct_str_add(out, "</table>\n"));
out:
  return rc;
}

int ct__runs_ops(const ct_runs_t *c, ct_str_t *out)
{
  int rc = CT_OK, traced = 0;
  CT_TRY(ct_str_add(out, "<h2>Slowest ops</h2>\n"));
  for (int i = 0; i < c->n; i++) {
    if (!c->run[i].trace) continue;
    traced++;
    CT_TRY(run_heading(c, i, out));
    CT_TRY(op_table(c->run[i].trace, out));
  }
  CT_TRY(traced
             ? ct_str_add(out, "<p>From the traced steps of all ranks; numbers are indices in the "
                               "plan. On a GPU the time of an op is its launch time.</p>\n")
             : ct_str_add(out,
                          "<p>No steps were traced: <code>run.trace: 100-110</code> records "
                          "the ops of some, and so does <code>bench step --ops</code>.</p>\n"));
out:
  return rc;
}
