/* Reads metrics.jsonl as it grows. */
#include "telemetry/ct_runlog.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_mem.h"
#include "conf/ct_yaml.h"

/* ---- curves ---- */

const ct_curve_t *ct_runlog_curve(const ct_runlog_t *r, const char *name)
{
  for (int i = 0; i < r->curves; i++)
    if (strcmp(r->curve[i].name, name) == 0) return &r->curve[i];
  return NULL;
}

/* Appends a point.  Drops older points of this and later steps: the run has resumed from an earlier
 * checkpoint and trains these steps again. */
static int add_point(ct_runlog_t *r, const char *name, int64_t step, double value)
{
  int rc = CT_OK;
  ct_curve_t *c = (ct_curve_t *)(uintptr_t)ct_runlog_curve(r, name);
  if (!c && r->curves == CT_RUNLOG_CURVES) return CT_OK;
  if (!c) {
    c = &r->curve[r->curves++];
    snprintf(c->name, sizeof c->name, "%.47s", name);
  }
  while (c->n > 0 && c->step[c->n - 1] >= step)
    c->n--;
  CT_TRY(ct_mem_grow((void **)&c->step, &c->step_cap, c->n + 1, sizeof *c->step));
  CT_TRY(ct_mem_grow((void **)&c->value, &c->value_cap, c->n + 1, sizeof *c->value));
  CT_TRY(ct_mem_grow((void **)&c->at_s, &c->at_cap, c->n + 1, sizeof *c->at_s));
  c->step[c->n] = step;
  c->at_s[c->n] = r->before_s + r->elapsed_s;
  c->value[c->n++] = value;
out:
  return rc;
}

/* All finite numbers of a line become points, except step, epoch and time. */
static int runlog_add_numbers(ct_runlog_t *r, const char *prefix, json_t *line, int64_t step)
{
  static const char *const no_curve[] = {"run", "elapsed_s", "step", "epoch", "samples"};
  int rc = CT_OK;
  const char *key;
  json_t *v;
  json_object_foreach(line, key, v)
  {
    char name[96];
    int skip = !json_is_number(v) || !isfinite(json_number_value(v));
    for (size_t i = 0; i < sizeof no_curve / sizeof *no_curve; i++)
      skip |= strcmp(no_curve[i], key) == 0;
    if (skip || strlen(prefix) + strlen(key) >= sizeof r->curve[0].name) continue;
    snprintf(name, sizeof name, "%s%.40s", prefix, key);
    CT_TRY(add_point(r, name, step, json_number_value(v)));
  }
out:
  return rc;
}

/* ---- lines ---- */

static void runlog_take_text(json_t *line, const char *key, char *to, size_t cap)
{
  const char *text = json_string_value(json_object_get(line, key));
  if (text) snprintf(to, cap, "%s", text);
}

static void take_int(json_t *line, const char *key, int64_t *to)
{
  json_t *v = json_object_get(line, key);
  if (json_is_integer(v)) *to = json_integer_value(v);
}

static double runlog_number(json_t *line, const char *key)
{
  return json_number_value(json_object_get(line, key)); /* 0 if it is not a number */
}

static void take_start(ct_runlog_t *r, json_t *line)
{
  r->end[0] = r->error[0] = r->straggler[0] = '\0';
  r->waits_data = r->waits_messages = 0;
  if (!json_object_get(line, "run")) r->run++; /* older files do not have numbers of sessions */
  runlog_take_text(line, "name", r->name, sizeof r->name);
  runlog_take_text(line, "device", r->device, sizeof r->device);
  runlog_take_text(line, "time", r->began, sizeof r->began);
  take_int(line, "ranks", &r->ranks);
  take_int(line, "nodes", &r->nodes);
  take_int(line, "samples", &r->samples);
  take_int(line, "batch", &r->batch);
  for (int i = 0; i < r->curves; i++) /* a resumed run replaces points of later steps */
    while (r->curve[i].n > 0 && r->curve[i].step[r->curve[i].n - 1] > r->step)
      r->curve[i].n--;
}

/* Adds the duration of an interrupted session; the sum begins at 0 if training starts over. */
static void take_time(ct_runlog_t *r, json_t *line, int is_start)
{
  int64_t step = 0;
  take_int(line, "step", &step);
  if (is_start) r->before_s = step ? r->before_s + r->elapsed_s : 0;
  if (is_start || json_object_get(line, "elapsed_s"))
    r->elapsed_s = runlog_number(line, "elapsed_s");
}

static void take_breakdown(ct_runlog_t *r, json_t *breakdown)
{
  if (!json_is_object(breakdown)) return;
  json_decref(r->breakdown);
  r->breakdown = json_incref(breakdown);
}

static int take_step(ct_runlog_t *r, json_t *line)
{
  double rate = runlog_number(line, "samples_per_s"), seconds = 0;
  if (rate > 0) seconds = runlog_number(line, "samples") / rate;
  r->waits_data = seconds > 0 ? runlog_number(line, "data_s") / seconds : 0;
  r->waits_messages = seconds > 0 ? runlog_number(line, "comm_exposed_s") / seconds : 0;
  return runlog_add_numbers(r, "", line, r->step);
}

static void take_checkpoint(ct_runlog_t *r, json_t *line)
{
  runlog_take_text(line, "file", r->checkpoint, sizeof r->checkpoint);
  if (json_object_get(line, "best")) runlog_take_text(line, "file", r->best, sizeof r->best);
}

static void take_straggler(ct_runlog_t *r, json_t *line)
{
  const char *host = json_string_value(json_object_get(line, "host"));
  snprintf(r->straggler, sizeof r->straggler, "rank %lld on %s, at step %lld",
           (long long)json_integer_value(json_object_get(line, "rank")), host ? host : "?",
           (long long)json_integer_value(json_object_get(line, "step")));
}

/* Writes the name of a curve of one of eval.sets: "eval.noisy.loss". */
static int take_eval(ct_runlog_t *r, json_t *line)
{
  const char *set = json_string_value(json_object_get(line, "set"));
  char prefix[40];
  snprintf(prefix, sizeof prefix, "eval.%.30s%s", set ? set : "", set ? "." : "");
  return runlog_add_numbers(r, prefix, line, r->step);
}

/* Checks the format version of this session. */
static int check_format(const ct_runlog_t *r, json_t *line)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], by[64];
  const char *versions = json_string_value(json_object_get(line, "versions"));
  snprintf(by, sizeof by, "%.*s", versions ? (int)strcspn(versions, ";") : 0, versions);
  CT_TRY(ct_path_join(path, sizeof path, r->dir, "metrics.jsonl"));
  CT_TRY(ct_format_line(path, json_integer_value(json_object_get(line, "format")),
                        "ctrain-hpc metrics", CT_FORMAT_METRICS, by));
out:
  return rc;
}

static int take_line(ct_runlog_t *r, json_t *line)
{
  int rc = CT_OK;
  const char *event = json_string_value(json_object_get(line, "event"));
  if (!event) CT_FAIL(CT_ERR_FORMAT, "the key \"event\" is missing");
  if (strcmp(event, "start") == 0) CT_TRY(check_format(r, line));
  take_int(line, "run", &r->run);
  take_time(r, line, strcmp(event, "start") == 0);
  int stands = strcmp(event, "step") == 0 || strcmp(event, "epoch") == 0 ||
               strcmp(event, "eval") == 0 || strcmp(event, "start") == 0 ||
               strcmp(event, "end") == 0;
  if (stands) take_int(line, "step", &r->step);
  if (stands) take_int(line, "epoch", &r->epoch);
  if (strcmp(event, "start") == 0) take_start(r, line);
  if (strcmp(event, "step") == 0) CT_TRY(take_step(r, line));
  if (strcmp(event, "epoch") == 0) CT_TRY(runlog_add_numbers(r, "epoch.", line, r->step));
  if (strcmp(event, "eval") == 0) CT_TRY(take_eval(r, line));
  if (strcmp(event, "checkpoint") == 0) take_checkpoint(r, line);
  if (strcmp(event, "straggler") == 0) take_straggler(r, line);
  if (strcmp(event, "account") == 0) take_breakdown(r, line);
  if (strcmp(event, "end") != 0) goto out;
  take_breakdown(r, json_object_get(line, "account"));
  snprintf(r->end, sizeof r->end, "unknown");
  runlog_take_text(line, "reason", r->end, sizeof r->end);
  runlog_take_text(line, "error", r->error, sizeof r->error);
out:
  return rc;
}

static int runlog_read_line(ct_runlog_t *r, const char *text, size_t bytes)
{
  int rc = CT_OK;
  json_error_t why;
  r->line++;
  json_t *line = json_loadb(text, bytes, 0, &why);
  if (!json_is_object(line))
    rc = ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s",
                    line ? "expected a JSON object" : why.text);
  if (rc == CT_OK) rc = take_line(r, line);
  json_decref(line);
  if (rc != CT_OK && rc != CT_ERR_NEWER) /* its message names the file already */
    ct_err_prefix(rc, "%s/metrics.jsonl:%lld: ", r->dir, (long long)r->line);
  return rc;
}

/* ---- state ---- */

int ct_runlog_is_killed(const ct_runlog_t *r)
{
  return !r->end[0] && r->holder == CT_HOLDER_GONE;
}

int ct_runlog_is_lost(const ct_runlog_t *r, double now)
{
  return !r->end[0] && r->holder == CT_HOLDER_UNKNOWN && now - r->changed > CT_RUNLOG_SILENT_S;
}

const char *ct_runlog_state(const ct_runlog_t *r, double now, char *buf, size_t cap)
{
  char since[32];
  struct tm tm;
  time_t changed = (time_t)r->changed;
  if (ct_runlog_is_killed(r)) {
    snprintf(buf, cap, "killed after step %lld", (long long)r->step);
  } else if (ct_runlog_is_lost(r, now)) {
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&changed, &tm));
    snprintf(buf, cap, "no sign of life since %s", since);
  } else {
    snprintf(buf, cap, "%s", r->end[0] ? r->end : "running");
  }
  return buf;
}

/* ---- the file ---- */

int ct_runlog_open(const char *dir, ct_runlog_t *out)
{
  *out = (ct_runlog_t){0};
  return ct_text_format(out->dir, sizeof out->dir, "%s", dir);
}

void ct_runlog_close(ct_runlog_t *r)
{
  for (int i = 0; i < r->curves; i++) {
    ct_mem_free(r->curve[i].step);
    ct_mem_free(r->curve[i].value);
    ct_mem_free(r->curve[i].at_s);
  }
  json_decref(r->breakdown);
  char dir[CT_PATH_MAX];
  strcpy(dir, r->dir);
  *r = (ct_runlog_t){0};
  strcpy(r->dir, dir);
}

static int64_t runlog_key_of(const ct_yaml_t *root, const char *section, const char *key)
{
  int64_t value = 0;
  const ct_yaml_t *n = ct_yaml_find(ct_yaml_find(root, section), key);
  return n && n->text && ct_text_int(n->text, &value) == CT_OK ? value : 0;
}

/* Reads the length of the training; without config.yaml it stays unknown. */
static void read_config(ct_runlog_t *r)
{
  char path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  ct_yaml_t *root = NULL;
  if (ct_path_join(path, sizeof path, r->dir, "config.yaml") == CT_OK && ct_file_exists(path) &&
      ct_file_read(path, &text, &bytes) == CT_OK &&
      ct_yaml_parse(text, bytes, path, &root) == CT_OK) {
    r->epochs = runlog_key_of(root, "train", "epochs");
    r->steps = runlog_key_of(root, "train", "steps");
  }
  ct_yaml_free(root);
  ct_mem_free(text);
}

int64_t ct_runlog_total(const ct_runlog_t *r)
{
  int64_t total = r->batch > 0 ? (r->samples + r->batch - 1) / r->batch * r->epochs : 0;
  return r->steps && (!total || r->steps < total) ? r->steps : total;
}

static int read_lines(ct_runlog_t *r, FILE *f, const char *path, int64_t *lines)
{
  int rc = CT_OK;
  char *text = NULL;
  int64_t cap = 0, n = 0;
  if (fseeko(f, r->offset, SEEK_SET) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  for (;;) {
    CT_TRY(ct_mem_grow((void **)&text, &cap, n + 4096, 1));
    if (!fgets(text + n, (int)(cap - n), f)) break; /* an incomplete line is read again later */
    n += (int64_t)strlen(text + n);
    if (text[n - 1] != '\n') continue;
    CT_TRY(runlog_read_line(r, text, (size_t)n));
    r->offset += n;
    n = 0;
    ++*lines;
  }
  if (ferror(f)) CT_FAIL(CT_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
out:
  ct_mem_free(text);
  return rc;
}

int ct_runlog_more(ct_runlog_t *r, int64_t *lines)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], lock[CT_PATH_MAX], hint[2 * CT_PATH_MAX];
  struct stat st;
  FILE *f = NULL;
  *lines = 0;
  CT_TRY(ct_path_join(path, sizeof path, r->dir, "metrics.jsonl"));
  f = fopen(path, "re");
  if (!f || fstat(fileno(f), &st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot open: %s%s", path, strerror(errno),
            errno == ENOENT ? ct_file_missing(path, hint, sizeof hint) : "");
  if (r->inode != st.st_ino || st.st_size < r->offset) ct_runlog_close(r);
  r->inode = st.st_ino;
  r->changed = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
  /* before reading lines: if the run ends now, its `end` line is among them */
  CT_TRY(ct_path_join(lock, sizeof lock, r->dir, "lock"));
  r->holder = ct_lock_holder(lock);
  CT_TRY(read_lines(r, f, path, lines));
  if (*lines) read_config(r);
out:
  if (f) fclose(f);
  return rc;
}
