/* The timeline of a few steps: every rank records its events, and rank 0 writes them into one file
 * for Chrome and Perfetto, with all times converted to its own clock. */
#include "telemetry/ct_trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_out.h"
#include "base/ct_trace.h"
#include "comm/ct_agree.h"

enum { EVENTS = 1 << 18 }; /* events per rank, which need 15 MB */

int ct_trace_file_before(ct_trace_file_t *t, const ct_topo_t *topo, int64_t step, double *spent_s)
{
  int rc = CT_OK;
  if (t->from || step < t->steps.from || step > t->steps.to) return CT_OK;
  double begin = ct_clock();
  ct_clocks_measure(topo, &t->clock[0]);
  CT_TRY_ALL(topo, ct_trace_start(EVENTS));
  t->from = step;
  *spent_s += ct_clock() - begin;
out:
  return rc;
}

/* ---- the file; rank 0 ---- */

typedef struct writing {
  const ct_trace_file_t *t;
  const ct_topo_t *topo;
  const char *dir;
  int64_t step; /* the last recorded one */
} writing_t;

static void write_part(void *ctx, int rank, const void *data, size_t bytes)
{
  (void)rank;
  ct_out_put(ctx, data, (int64_t)bytes); /* an error is returned by the commit */
}

static int trace_open_file(const writing_t *l, ct_out_t *out)
{
  static const char head[] = "{\"traceEvents\":[\n";
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, l->dir, "trace.json"));
  CT_TRY(ct_out_begin(out, path));
  CT_TRY(ct_out_put(out, head, sizeof head - 1));
out:
  return rc;
}

/* Perfetto shows otherData among the properties of the file. */
static int trace_close_file(const writing_t *l, ct_out_t *out, double bound_s, int64_t lost)
{
  const ct_trace_file_t *t = l->t;
  char tail[400];
  snprintf(tail, sizeof tail,
           "{\"name\":\"trace\",\"ph\":\"M\",\"pid\":0,\"args\":{}}],\n"
           "\"displayTimeUnit\":\"ms\",\"otherData\":{\"first_step\":%lld,\"last_step\":%lld,"
           "\"ranks\":%d,\"nodes\":%d,\"clock_bound_us\":%.3f,\"events_lost\":%lld}}\n",
           (long long)t->from, (long long)l->step, l->topo->size, l->topo->nodes, 1e6 * bound_s,
           (long long)lost);
  ct_out_put(out, tail, (int64_t)strlen(tail));
  return ct_out_commit(out);
}

static void log_timeline(const writing_t *l, const ct_out_t *out, double bound_s, int64_t lost)
{
  char clocks[80] = "";
  if (l->topo->nodes > 1)
    snprintf(clocks, sizeof clocks, "; the clocks of the nodes agree within %.1f us",
             1e6 * bound_s);
  ct_log(CT_LOG_INFO, "the timeline of steps %lld to %lld is in %s%s", (long long)l->t->from,
         (long long)l->step, out->path, clocks);
  if (lost)
    ct_log(CT_LOG_WARN, "run.trace: the timeline lacks %lld events: record fewer steps",
           (long long)lost);
}

/* ---- all ranks ---- */

/* Converts times of this rank to the clock of rank 0, from the beginning of the timeline. */
typedef struct placing {
  const ct_clock_offset_t *clock;
  double zero_s;
} placing_t;

static double trace_convert(const void *ctx, double s)
{
  const placing_t *p = ctx;
  return ct_clocks_convert(p->clock, s) - p->zero_s;
}

static int write_events(const writing_t *l, ct_out_t *out, const placing_t *p, int64_t *lost)
{
  int rc = CT_OK;
  char name[128];
  ct_str_t text = {0};
  snprintf(name, sizeof name, "rank %d (%s)", l->topo->rank, l->topo->host);
  rc = ct_trace_json(l->topo->rank, name, trace_convert, p, &text, lost);
  if (rc == CT_OK && l->topo->rank == 0) rc = trace_open_file(l, out);
  CT_TRY_ALL(l->topo, rc);
  ct_agree_each(l->topo, text.data, text.len, write_part, out);
  rc = out->rc;
out:
  ct_str_clear(&text);
  return rc;
}

static int trace_collect(const writing_t *l, ct_out_t *out)
{
  int rc = CT_OK;
  int64_t lost = 0;
  const ct_trace_file_t *t = l->t;
  placing_t p = {.clock = t->clock, .zero_s = l->topo->rank ? 0 : t->clock[0].at_s};
  double bound =
      t->clock[0].bound_s > t->clock[1].bound_s ? t->clock[0].bound_s : t->clock[1].bound_s;
  CT_TRY(ct_agree_doubles(l->topo, &p.zero_s, 1, 0));
  CT_TRY(ct_agree_doubles(l->topo, &bound, 1, 1));
  rc = write_events(l, out, &p, &lost);
  CT_TRY_ALL(l->topo, rc);
  ct_agree_sum(l->topo, &lost, 1);
  if (l->topo->rank == 0) rc = trace_close_file(l, out, bound, lost);
  CT_TRY_ALL(l->topo, rc);
  if (l->topo->rank == 0) log_timeline(l, out, bound, lost);
out:
  return rc;
}

int ct_trace_file_after(ct_trace_file_t *t, const ct_topo_t *topo, const char *dir, int64_t step,
                        int last, double *spent_s)
{
  int rc = CT_OK;
  ct_out_t out = {0};
  const writing_t l = {t, topo, dir, step};
  if (!t->from || t->over || (!last && step < t->steps.to)) return CT_OK;
  double begin = ct_clock();
  t->over = 1;
  ct_trace_stop();
  ct_clocks_measure(topo, &t->clock[1]);
  rc = trace_collect(&l, &out);
  ct_out_drop(&out);
  ct_trace_clear();
  *spent_s += ct_clock() - begin;
  if (rc != CT_ERR_IO) return rc;
  ct_log(CT_LOG_WARN, "the timeline is not written: %s", ct_err_last()->text);
  return CT_OK;
}
