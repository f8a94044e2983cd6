/* metrics.jsonl.  Other programs read it while the run writes it, and runs append to it after a
 * crash: each line is written completely or not at all, an incomplete last line is cut off when the
 * file is opened, and a removed file is created again. */
#include "telemetry/ct_metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "telemetry/ct_events.h"

struct ct_metrics {
  int fd;
  int64_t bytes; /**< length of the file: complete lines only */
  json_t *line;  /**< the object between begin and end */
  char *text;    /**< buffer for the longest line so far */
  int64_t cap;
  int rc;                   /**< first error */
  int forgive;              /**< 1: write errors are warnings */
  int losing;               /**< 1: a write has failed, and lines are dropped */
  int64_t run;              /**< number of this session, from 1 (ct_metrics_run()) */
  struct ct_events *events; /**< NULL: none */
  double exec;              /**< ct_clock() when the program was started */
  char path[CT_PATH_MAX];
};

/* A crash or a full disk may have left an incomplete last line: truncates the file after its last
 * newline. */
static int find_end(ct_metrics_t *m)
{
  int rc = CT_OK;
  char block[4096];
  for (m->bytes = lseek(m->fd, 0, SEEK_END); m->bytes > 0;) {
    int64_t begin = m->bytes > (int64_t)sizeof block ? m->bytes - (int64_t)sizeof block : 0;
    ssize_t n = pread(m->fd, block, (size_t)(m->bytes - begin), begin);
    if (n <= 0) break;
    const char *newline = memrchr(block, '\n', (size_t)n);
    m->bytes = newline ? begin + (newline - block) + 1 : begin;
    if (newline) break;
  }
  if (m->bytes < 0 || ftruncate(m->fd, m->bytes) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot be written: %s", m->path, strerror(errno));
out:
  return rc;
}

/* Counts the `start` lines of the file by their first characters. */
static int count_starts(ct_metrics_t *m)
{
  int rc = CT_OK, begins = 1;
  static const char head[] = "{\"event\":\"start\"";
  char part[4096];
  FILE *f = fopen(m->path, "re");
  if (!f) CT_FAIL(CT_ERR_IO, "%s: cannot be read: %s", m->path, strerror(errno));
  while (fgets(part, sizeof part, f)) {
    m->run += begins && strncmp(part, head, sizeof head - 1) == 0;
    begins = part[strlen(part) - 1] == '\n';
  }
  fclose(f);
out:
  return rc;
}

int ct_metrics_open(const char *dir, ct_metrics_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_metrics_t *m = ct_mem_alloc(sizeof *m, "metrics");
  if (!m) return CT_ERR_NOMEM;
  m->fd = -1;
  CT_TRY(ct_path_join(m->path, sizeof m->path, dir, "metrics.jsonl"));
  m->fd = ct_file_open(m->path, O_RDWR | O_CREAT | O_APPEND, 0666);
  if (m->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %s", m->path, ct_file_why(errno));
  CT_TRY(find_end(m));
  CT_TRY(count_starts(m));
  m->run++;
  m->exec = ct_clock() - ct_clock_since_exec();
  *out = m;
  m = NULL;
out:
  ct_metrics_close(m);
  return rc;
}

/* Reopens the file if it was removed or replaced. */
static int is_lost(const ct_metrics_t *m)
{
  ct_name_t name = ct_file_name(m->fd, m->path);
  return name == CT_NAME_GONE || name == CT_NAME_OTHER;
}

static int begin_anew(ct_metrics_t *m)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  CT_TRY(ct_path_dir(dir, sizeof dir, m->path));
  CT_TRY(ct_file_mkdirs(dir));
  int fd = ct_file_open(m->path, O_RDWR | O_CREAT | O_APPEND, 0666);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %s", m->path, ct_file_why(errno));
  close(m->fd);
  m->fd = fd;
  CT_TRY(find_end(m));
  ct_log(CT_LOG_WARN, "%s was removed during the run; further lines go to a new file", m->path);
out:
  return rc;
}

static void metrics_set(ct_metrics_t *m, const char *name, json_t *value)
{
  if (json_object_set_new(m->line, name, value) != 0 && m->rc == CT_OK)
    m->rc = ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "%s: no memory for '%s'", m->path, name);
}

/* "2026-01-31T12:00:00.123Z" */
static const char *utc(char *buf, size_t cap)
{
  struct timespec now;
  struct tm tm;
  clock_gettime(CLOCK_REALTIME, &now);
  size_t n = strftime(buf, cap, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
  snprintf(buf + n, cap - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
  return buf;
}

void ct_metrics_begin(ct_metrics_t *m, const char *event)
{
  char now[40];
  if (!m) return;
  json_decref(m->line);
  m->line = json_object();
  metrics_set(m, "event", json_string(event));
  metrics_set(m, "run", json_integer(m->run));
  metrics_set(m, "time", json_string(utc(now, sizeof now)));
  metrics_set(m, "elapsed_s", json_real(ct_clock() - m->exec));
}

void ct_metrics_int(ct_metrics_t *m, const char *name, int64_t v)
{
  if (m) metrics_set(m, name, json_integer(v));
}

void ct_metrics_num(ct_metrics_t *m, const char *name, double v)
{
  if (m) metrics_set(m, name, isfinite(v) ? json_real(v) : json_null()); /* JSON has no NaN */
}

void ct_metrics_text(ct_metrics_t *m, const char *name, const char *v)
{
  if (m)
    metrics_set(m, name, ct_json_words(v)); /* the text of an error may contain any file name */
}

void ct_metrics_json(ct_metrics_t *m, const char *name, json_t *v)
{
  const char *key;
  json_t *member;
  if (m && (name || !v)) {
    metrics_set(m, name ? name : "members", v);
    return;
  }
  if (m) json_object_foreach(v, key, member) metrics_set(m, key, json_incref(member));
  json_decref(v);
}

/* A single write; a partial one is truncated. */
static int write_line(ct_metrics_t *m, const char *line, size_t bytes)
{
  int rc = CT_OK;
  if (is_lost(m)) CT_TRY(begin_anew(m));
  errno = 0;
  ssize_t n = write(m->fd, line, bytes);
  if (n != (ssize_t)bytes) {
    int why = errno ? errno : ENOSPC;
    if (n > 0 && ftruncate(m->fd, m->bytes) != 0) why = errno;
    CT_FAIL(CT_ERR_IO, "%s: cannot be written: %s", m->path, strerror(why));
  }
  m->bytes += n;
out:
  return rc;
}

static int forgiven(ct_metrics_t *m, int rc)
{
  if (!m->forgive) return rc;
  if (rc != CT_OK && !m->losing)
    ct_log(CT_LOG_WARN, "%s; lines are dropped until writing works again", ct_err_last()->text);
  m->losing = rc != CT_OK;
  return CT_OK;
}

void ct_metrics_forgive(ct_metrics_t *m)
{
  if (m) m->forgive = 1;
}

int ct_metrics_end(ct_metrics_t *m)
{
  if (!m) return CT_OK;
  int rc = m->rc;
  const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
  if (rc != CT_OK) goto out;
  size_t n = json_dumpb(m->line, NULL, 0, flags);
  if (n == 0) CT_FAIL(CT_ERR_NOMEM, "%s: no memory for a line", m->path);
  CT_TRY(ct_mem_grow((void **)&m->text, &m->cap, (int64_t)n + 1, 1));
  json_dumpb(m->line, m->text, n, flags);
  m->text[n] = '\n';
  CT_TRY(forgiven(m, write_line(m, m->text, n + 1)));
  ct_events_line(m->events, m->line);
out:
  json_decref(m->line);
  m->line = NULL;
  m->rc = rc;
  return rc;
}

int64_t ct_metrics_run(const ct_metrics_t *m)
{
  return m->run;
}

void ct_metrics_follow(ct_metrics_t *m, struct ct_events *events)
{
  if (m) m->events = events;
}

int ct_metrics_close(ct_metrics_t *m)
{
  if (!m) return CT_OK;
  int rc = m->rc;
  json_decref(m->line);
  if (m->fd >= 0 && close(m->fd) != 0 && rc == CT_OK)
    rc = ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot be written: %s", m->path,
                    strerror(errno));
  ct_mem_free(m->text);
  ct_mem_free(m);
  return rc;
}
