/* The table of `ctrain-hpc summary`: output shape, parameters and FLOP of each layer for one
 * sample, from the same functions that the program uses. */
#include "model/graph_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"

/* A row of the table as text. */
typedef struct row {
  char name[CT_NAME_MAX], kind[32], shape[80], params[32], mflop[48];
} row_t;

typedef struct widths {
  int name, kind, shape, params, mflop;
} widths_t;

typedef struct totals {
  int64_t trained, buffers;
  double flops;
} totals_t;

/* Writes n with separators: "11,689,512". */
static void thousands(int64_t n, char *buf, size_t cap)
{
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%" PRId64, n);
  size_t at = 0;
  for (int i = 0; i < len && at + 2 < cap; i++) {
    if (i > 0 && (len - i) % 3 == 0) buf[at++] = ',';
    buf[at++] = digits[i];
  }
  buf[at] = '\0';
}

/* Writes millions with three decimals: "3,628.147". */
static void mega(double flops, char *buf, size_t cap)
{
  int64_t milli = (int64_t)fmin(flops / 1e3 + 0.5, 9e18);
  char whole[32];
  thousands(milli / 1000, whole, sizeof whole);
  snprintf(buf, cap, "%s.%03d", whole, (int)(milli % 1000));
}

static totals_t count_layer(const ct_graph_t *g, int layer)
{
  const ct_layer_t *l = &g->layer[layer];
  totals_t t = {0};
  ct_op_desc_t d;
  ct_graph_op(g, layer, 1, &d);
  t.flops = ct_op_flops(&d, CT_FWD);
  for (int i = 0; i < l->params; i++) {
    const ct_param_t *p = &g->param[l->param[i]];
    if (p->layer == layer) *(p->spec.buffer ? &t.buffers : &t.trained) += p->count;
  }
  return t;
}

static row_t make_row(const ct_graph_t *g, int layer)
{
  const ct_layer_t *l = &g->layer[layer];
  totals_t t = count_layer(g, layer);
  row_t r = {.params = "-", .mflop = "-"};
  snprintf(r.name, sizeof r.name, "%s", l->name);
  snprintf(r.kind, sizeof r.kind, "%s", l->ops->kind);
  ct__graph_sample_text(&l->out, r.shape, sizeof r.shape);
  if (t.trained > 0) thousands(t.trained, r.params, sizeof r.params);
  if (t.flops > 0) mega(t.flops, r.mflop, sizeof r.mflop);
  return r;
}

static row_t make_total(const totals_t *t)
{
  row_t r = {.name = "total"};
  thousands(t->trained, r.params, sizeof r.params);
  mega(t->flops, r.mflop, sizeof r.mflop);
  return r;
}

static void graph_summary_widen(int *width, const char *text)
{
  int n = (int)strlen(text);
  if (n > *width) *width = n;
}

static void widen_all(widths_t *w, const row_t *r)
{
  graph_summary_widen(&w->name, r->name);
  graph_summary_widen(&w->kind, r->kind);
  graph_summary_widen(&w->shape, r->shape);
  graph_summary_widen(&w->params, r->params);
  graph_summary_widen(&w->mflop, r->mflop);
}

static int graph_summary_add_row(const widths_t *w, const row_t *r, ct_str_t *out)
{
  return ct_str_add(out, "%-*s  %-*s  %-*s  %*s  %*s\n", w->name, r->name, w->kind, r->kind,
                    w->shape, r->shape, w->params, r->params, w->mflop, r->mflop);
}

static int graph_summary_add_line(const widths_t *w, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = w->name + w->kind + w->shape + w->params + w->mflop + 8; i > 0; i--)
    CT_TRY(ct_str_add(out, "-"));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

static int add_totals(const ct_graph_t *g, const totals_t *t, ct_str_t *out)
{
  int rc = CT_OK;
  char n[48], input[80], bytes[32];
  ct__graph_sample_text(&g->input, input, sizeof input);
  CT_TRY(ct_str_add(out, "\ninput       %s\n", input));
  for (int k = 0; k < g->extra.n; k++)
    CT_TRY(ct_str_add(out, "            %s for input.%s\n",
                      ct__graph_sample_text(&g->extra.x[k], input, sizeof input),
                      g->extra.name[k]));
  thousands(t->trained, n, sizeof n);
  ct_text_bytes((double)t->trained * sizeof(float), bytes, sizeof bytes);
  CT_TRY(ct_str_add(out, "parameters  %s (%s in float32)\n", n, bytes));
  thousands(t->buffers, n, sizeof n);
  CT_TRY(ct_str_add(out, "buffers     %s (running statistics)\n", n));
  mega(t->flops, n, sizeof n);
  CT_TRY(ct_str_add(out, "forward     %s MFLOP per sample (a multiply-add is two)\n", n));
out:
  return rc;
}

int ct_graph_summary(const ct_graph_t *g, ct_str_t *out)
{
  int rc = CT_OK;
  widths_t w = {0};
  totals_t sum = {0};
  const row_t head = {"layer", "kind", "output", "parameters", "MFLOP"};
  for (int i = 0; i < g->layers; i++) {
    totals_t t = count_layer(g, i);
    sum.trained += t.trained;
    sum.buffers += t.buffers;
    sum.flops += t.flops;
    row_t r = make_row(g, i);
    widen_all(&w, &r);
  }
  row_t total = make_total(&sum);
  widen_all(&w, &head);
  widen_all(&w, &total);
  CT_TRY(graph_summary_add_row(&w, &head, out));
  CT_TRY(graph_summary_add_line(&w, out));
  for (int i = 0; i < g->layers; i++) {
    row_t r = make_row(g, i);
    CT_TRY(graph_summary_add_row(&w, &r, out));
  }
  CT_TRY(graph_summary_add_line(&w, out));
  CT_TRY(graph_summary_add_row(&w, &total, out));
  CT_TRY(add_totals(g, &sum, out));
out:
  return rc;
}
