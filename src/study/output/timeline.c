/* A chart of one step on all ranks, from the trace.json in the directory of points.jsonl: the
 * activity of each rank, and below it its gradients in flight. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "study/output/report.h"

enum { ROWS = 32, SENT = 1024 };

/* The begin and end of a step in microseconds, and the number of ranks in the trace. */
typedef struct window {
  double from, to;
  char name[40];
  int ranks;
} window_t;

static double member(const json_t *event, const char *key)
{
  return json_number_value(json_object_get(event, key));
}

static const char *timeline_text_of(const json_t *event, const char *key)
{
  const char *text = json_string_value(json_object_get(event, key));
  return text ? text : "";
}

static int is_step(const json_t *event)
{
  return strncmp(timeline_text_of(event, "name"), "step ", 5) == 0;
}

/* Finds the last whole step: from the begin of the first rank to the end of the last rank. */
static window_t find_step(const json_t *events)
{
  window_t w = {.from = INFINITY};
  size_t i;
  json_t *e;
  json_array_foreach(events, i, e) if (is_step(e) && member(e, "pid") == 0)
      snprintf(w.name, sizeof w.name, "%s", timeline_text_of(e, "name"));
  json_array_foreach(events, i, e)
  {
    if (!is_step(e) || strcmp(timeline_text_of(e, "name"), w.name) != 0) continue;
    w.from = fmin(w.from, member(e, "ts"));
    w.to = fmax(w.to, member(e, "ts") + member(e, "dur"));
    w.ranks = (int)fmax(w.ranks, member(e, "pid") + 1);
  }
  return w;
}

/* Returns the index in `names` of an event that is drawn in the row of its rank; -1: the event is
 * part of another event and is not drawn. */
static int timeline_kind_of(const char *name)
{
  static const char *const names[] = {"data", "compute", "move",      "update",
                                      "word", "waiting", "batchnorm", "checkpoint"};
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strncmp(name, names[i], strlen(names[i])) == 0) return i;
  return -1;
}

/* Adds a box for the event e of a rank, clipped to the step; kind < 0: gradients in flight, drawn
 * below the activity of the rank.  The row of rank r begins at -r and ends at -r - 1; x is in
 * milliseconds from the begin of the step. */
static int add_box(ct__series_t *s, const window_t *w, const json_t *e, double from, double to,
                   int kind)
{
  int rank = (int)member(e, "pid"), sent = kind < 0;
  const char *name = timeline_text_of(e, "name");
  from = 1e-3 * (fmax(from, w->from) - w->from);
  to = 1e-3 * (fmin(to, w->to) - w->from);
  ct__mark_t m = {.x = from, .to = to};
  if (to <= from || rank < 0 || rank >= ROWS) return CT_OK;
  m.low = -rank - (sent ? 0.88 : 0.6);
  m.high = -rank - (sent ? 0.66 : 0.08);
  m.colour = sent ? "#444444" : kind == 5 ? "#dddddd" : ct__colour(kind + 8 * (kind == 1));
  if (!sent) snprintf(m.text, 40, "%s", kind == 5 ? "wait" : name);
  if (to - from <= 2e-5 * (double)strlen(m.text) * (w->to - w->from)) *m.text = '\0';
  snprintf(m.hint, sizeof m.hint, "rank %d: %s%s, %.4g ms", rank, name, sent ? " in flight" : "",
           to - from);
  return ct__series_add(s, &m);
}

static int add_span(ct__series_t *s, const window_t *w, const json_t *e)
{
  int kind = timeline_kind_of(timeline_text_of(e, "name"));
  double from = member(e, "ts");
  if (kind < 0 || member(e, "tid") != 0) return CT_OK;
  return add_box(s, w, e, from, from + member(e, "dur"), kind);
}

/* The begin event (`b`) of a bucket whose end event (`e`) has not been read yet. */
typedef struct sent {
  char name[32];
  int rank;
  double at;
} sent_t;

typedef struct sents {
  sent_t s[SENT];
  int n;
} sents_t;

static void put_sent(sents_t *all, const json_t *e)
{
  sent_t *s = &all->s[all->n];
  if (all->n == SENT) return;
  snprintf(s->name, sizeof s->name, "%s", timeline_text_of(e, "name"));
  s->rank = (int)member(e, "pid");
  s->at = member(e, "ts");
  all->n++;
}

static int add_sent(ct__series_t *s, const window_t *w, sents_t *all, const json_t *e)
{
  int rank = (int)member(e, "pid"), i = 0;
  while (i < all->n &&
         (all->s[i].rank != rank || strcmp(all->s[i].name, timeline_text_of(e, "name")) != 0))
    i++;
  if (i == all->n) return CT_OK;
  double from = all->s[i].at;
  all->s[i] = all->s[--all->n];
  return add_box(s, w, e, from, member(e, "ts"), -1);
}

static int add_events(ct__series_t *s, const window_t *w, const json_t *events)
{
  static sents_t sent;
  int rc = CT_OK;
  size_t i;
  json_t *e;
  sent.n = 0;
  json_array_foreach(events, i, e)
  {
    const char *ph = timeline_text_of(e, "ph");
    if (strcmp(ph, "X") == 0) CT_TRY(add_span(s, w, e));
    if (strcmp(ph, "b") == 0) put_sent(&sent, e);
    if (strcmp(ph, "e") == 0) CT_TRY(add_sent(s, w, &sent, e));
  }
out:
  return rc;
}

static int timeline_draw(const window_t *w, const json_t *trace, ct_str_t *out)
{
  int rc = CT_OK, rows = w->ranks < ROWS ? w->ranks : ROWS;
  double bound = member(json_object_get(trace, "otherData"), "clock_bound_us");
  ct__tick_t name[ROWS];
  ct__series_t s = {.kind = CT__BOX};
  for (int r = 0; r < rows; r++) {
    name[r].at = -r - 0.5;
    snprintf(name[r].name, sizeof name[r].name, "rank %d", r);
  }
  ct__chart_t c = {.heading = "One step on all ranks",
                   .description = "A row for each rank: boxes with names for its activity, and "
                                  "below them dark bars for its gradients in flight.",
                   .width = 860,
                   .height = 70 + fmax(18, 60 - 2 * rows) * rows,
                   .x = {.label = "ms since the begin of the step", .to = 1e-3 * (w->to - w->from)},
                   .y = {.from = -rows, .tick = name, .ticks = rows}};
  CT_TRY(add_events(&s, w, json_object_get(trace, "traceEvents")));
  CT_TRY(ct__chart(&c, &s, 1, out));
  CT_TRY(ct_str_add(out,
                    "<p>%s of <code>trace.json</code>%s. Boxes: activity of a rank; dark bars "
                    "below: gradients in flight. Clocks of the nodes agree within %.4g us.</p>\n",
                    w->name, w->ranks > ROWS ? ", the first 32 ranks" : "", bound));
out:
  ct_mem_free(s.mark);
  return rc;
}

int ct__report_timeline(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  json_t *trace = NULL;
  json_error_t why;
  CT_TRY(ct_path_dir(dir, sizeof dir, r->study->path));
  CT_TRY(ct_path_join(path, sizeof path, dir, "trace.json"));
  if (!ct_file_exists(path)) return CT_OK;
  CT_TRY(ct_file_read(path, &text, &bytes));
  if (!(trace = json_loadb(text, bytes, 0, &why)))
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: %s", path, why.line, why.text);
  window_t w = find_step(json_object_get(trace, "traceEvents"));
  if (!w.ranks || w.to <= w.from)
    CT_FAIL(CT_ERR_FORMAT, "%s: it contains no step; expected a file written by run.trace", path);
  CT_TRY(timeline_draw(&w, trace, out));
out:
  json_decref(trace);
  ct_mem_free(text);
  return rc;
}
