/* MLPerf's log.  Each line is flushed when it is written. */
#include "telemetry/ct_mllog.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

static const char point[] = "POINT_IN_TIME", mark[] = ":::MLLOG ";

struct ct_mllog {
  FILE *f;
  int losing; /* 1: a write has failed, and lines are dropped */
  char path[CT_PATH_MAX];
};

int ct_mllog_open(const char *dir, ct_mllog_t **out)
{
  int rc = CT_OK;
  ct_mllog_t *m = ct_mem_alloc(sizeof *m, "MLPerf's log");
  if (!m) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_path_join(m->path, sizeof m->path, dir, "mllog.log"));
  m->f = ct_file_new_stream(m->path);
  if (!m->f) CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %m", m->path);
  *out = m;
  m = NULL;
out:
  ct_mllog_close(m);
  return rc;
}

void ct_mllog_close(ct_mllog_t *m)
{
  if (m && m->f) fclose(m->f);
  ct_mem_free(m);
}

/* Takes ownership of value and metadata; NULL: null, no metadata. */
static void line(ct_mllog_t *m, const char *type, const char *key, json_t *value, json_t *metadata,
                 double ago)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double ms = 1e3 * ((double)now.tv_sec - ago) + 1e-6 * (double)now.tv_nsec;
  json_t *o =
      json_pack("{s:s, s:I, s:s, s:s, s:o, s:o}", "namespace", "", "time_ms", (json_int_t)floor(ms),
                "event_type", type, "key", key, "value", value ? value : json_null(), "metadata",
                metadata ? metadata : json_object());
  int lost = !o || fwrite(mark, 1, strlen(mark), m->f) == 0 ||
             json_dumpf(o, m->f, JSON_REAL_PRECISION(12)) != 0 || fputc('\n', m->f) == EOF ||
             fflush(m->f) != 0;
  if (lost && !m->losing)
    ct_log(CT_LOG_WARN, "%s: cannot be written: %s; further lines are dropped", m->path,
           o ? strerror(errno) : "no memory");
  m->losing = lost;
  json_decref(o);
}

static json_t *of_epoch(int64_t epoch)
{
  return json_pack("{s:I}", "epoch_num", (json_int_t)epoch);
}

static void interval(ct_mllog_t *m, const char *key, int end, json_t *metadata, double ago)
{
  char name[64];
  snprintf(name, sizeof name, "%s_%s", key, end ? "stop" : "start");
  line(m, end ? "INTERVAL_END" : "INTERVAL_START", name, NULL, metadata, ago);
}

void ct_mllog_fact(ct_mllog_t *m, const char *key, json_t *value)
{
  if (m)
    line(m, point, key, value, NULL, 0);
  else
    json_decref(value);
}

void ct_mllog_begin(ct_mllog_t *m, const char *key, double ago)
{
  if (m) interval(m, key, 0, NULL, ago);
}

void ct_mllog_end(ct_mllog_t *m, const char *key)
{
  if (m) interval(m, key, 1, NULL, 0);
}

void ct_mllog_begin_epoch(ct_mllog_t *m, const char *key, int64_t epoch)
{
  if (m) interval(m, key, 0, of_epoch(epoch), 0);
}

void ct_mllog_end_epoch(ct_mllog_t *m, const char *key, int64_t epoch)
{
  if (m) interval(m, key, 1, of_epoch(epoch), 0);
}

void ct_mllog_score(ct_mllog_t *m, const char *key, double value, int64_t epoch)
{
  if (m) line(m, point, key, isfinite(value) ? json_real(value) : NULL, of_epoch(epoch), 0);
}

void ct_mllog_stop(ct_mllog_t *m, const char *status)
{
  if (m) interval(m, "run", 1, json_pack("{s:s}", "status", status), 0);
}
