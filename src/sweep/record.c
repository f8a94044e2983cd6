/* The directory of a sweep: which runs it has, and the state of each. */
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "sweep/ct_sweep.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "setup/ct_config.h"

/* ---- reading ---- */

/* Merges a run's line into its known state: takes the new state and adds up the seconds. */
static void record_merge(json_t *runs, const char *name, json_t *line)
{
  json_t *old = json_object_get(runs, name);
  double seconds = json_number_value(json_object_get(line, "seconds")) +
                   json_number_value(json_object_get(old, "seconds"));
  if (!old) {
    json_object_set(runs, name, line);
  } else if (json_number_value(json_object_get(line, "time")) >=
             json_number_value(json_object_get(old, "time"))) {
    json_object_del(old, "error");
    json_object_update(old, line);
  }
  json_object_set_new(json_object_get(runs, name), "seconds", json_real(seconds));
}

static int read_record(const char *path, json_t *runs)
{
  int rc = CT_OK, number = 0;
  char *text = NULL;
  size_t bytes;
  CT_TRY(ct_file_read(path, &text, &bytes));
  for (char *begin = text, *end; (end = strchr(begin, '\n')); begin = end + 1) {
    json_t *line = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    const char *name = json_string_value(json_object_get(line, "name"));
    int whole = name && json_is_object(json_object_get(line, "set")) &&
                json_is_string(json_object_get(line, "state"));
    number++;
    rc = ct_format_line(path, json_integer_value(json_object_get(line, "format")),
                        "ctrain-hpc sweep", CT_FORMAT_SWEEP, NULL);
    if (whole && rc == CT_OK) record_merge(runs, name, line);
    json_decref(line);
    CT_TRY(rc);
    if (!whole)
      CT_FAIL(CT_ERR_FORMAT, "%s:%d: expected a run of a sweep, with name, set and state", path,
              number);
  }
out:
  ct_mem_free(text);
  return rc;
}

int ct_sweep_read(const char *dir, json_t **out)
{
  int rc = CT_OK, n = 0;
  char **file = NULL, path[CT_PATH_MAX];
  *out = json_object();
  if (!*out) CT_FAIL(CT_ERR_NOMEM, "no memory for a sweep");
  CT_TRY(ct_path_join(path, sizeof path, dir, "base.yaml"));
  if (!ct_file_exists(path))
    CT_FAIL(CT_ERR_USAGE, "%s is not a sweep directory: %s is missing", dir, path);
  CT_TRY(ct_file_glob(dir, "runs*.jsonl", &file, &n));
  for (int i = 0; i < n; i++)
    CT_TRY(read_record(file[i], *out));
out:
  ct_file_list_free(file, n);
  if (rc != CT_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return rc;
}

/* ---- writing ---- */

/* Converts KEY=VALUE texts to an object. */
static json_t *settings_of(const ct_sweep_run_t *r)
{
  json_t *set = json_object();
  for (int i = 0; i < r->n; i++) {
    char key[256];
    size_t len = strcspn(r->set[i], "=");
    snprintf(key, sizeof key, "%.*s", (int)len, r->set[i]);
    json_object_set_new(set, key, ct_json_words(r->set[i] + len + 1));
  }
  return set;
}

int ct_sweep_note(const ct_sweep_t *s, const ct_sweep_run_t *r, const char *state,
                  const char *error, double seconds)
{
  struct timeval now;
  gettimeofday(&now, NULL);
  json_t *o = json_pack("{s:i, s:f, s:s, s:o, s:s, s:f}", "format", CT_FORMAT_SWEEP, "time",
                        (double)now.tv_sec + 1e-6 * (double)now.tv_usec, "name", r->name, "set",
                        settings_of(r), "state", state, "seconds", seconds);
  if (o && error) json_object_set_new(o, "error", ct_json_words(error));
  return ct_json_append(s->record, o);
}

/* ---- opening ---- */

/* Fails if the runs in the directory have another configuration. */
static int check_base(const char *dir, const ct_str_t *base)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], *old = NULL;
  size_t bytes;
  ct_config_t c = {0};
  ct_str_t changed = {0};
  CT_TRY(ct_path_join(path, sizeof path, dir, "base.yaml"));
  if (!ct_file_exists(path)) {
    CT_TRY(ct_file_write(path, base->data, base->len));
    goto out;
  }
  CT_TRY(ct_file_read(path, &old, &bytes));
  CT_TRY(ct_config_parse(&c, base->data, base->len, "the sweep's configuration", NULL, 0));
  CT_TRY(ct_config_differences(&c, old, &changed));
  if (changed.len)
    CT_FAIL(CT_ERR_USAGE,
            "%s is a sweep of another configuration: %s; its runs cannot be compared with new "
            "ones: choose another --dir",
            dir, changed.data);
out:
  ct_config_clear(&c);
  ct_str_clear(&changed);
  ct_mem_free(old);
  return rc;
}

static int enter_runs(const ct_sweep_t *s, const ct_sweep_plan_t *p)
{
  int rc = CT_OK;
  json_t *there = NULL;
  if (ct_file_exists(s->record)) CT_TRY(ct_json_heal(s->record));
  CT_TRY(ct_file_exists(s->record) ? CT_OK : ct_file_write(s->record, "", 0));
  CT_TRY(ct_sweep_read(s->dir, &there));
  for (int64_t i = 0; i < p->runs; i++) {
    json_t *old = json_object_get(there, p->run[i].name), *set = settings_of(&p->run[i]);
    int same = !old || json_equal(json_object_get(old, "set"), set);
    json_decref(set);
    if (!same)
      CT_FAIL(CT_ERR_USAGE, "%s/%s is a run with other keys than this one's: choose another --dir",
              s->dir, p->run[i].name);
    if (!old) CT_TRY(ct_sweep_note(s, &p->run[i], "planned", NULL, 0));
  }
out:
  json_decref(there);
  return rc;
}

int ct_sweep_open(const char *dir, const ct_str_t *base, const ct_sweep_plan_t *p, int64_t part,
                  int64_t parts, const ct_topo_t *topo, ct_sweep_t *s)
{
  enum { WAIT_S = 60 }; /* seconds to wait for other tasks of a job array, which start together */
  int rc = CT_OK;
  char path[CT_PATH_MAX], name[40] = "";
  ct_lock_owner_t me;
  ct_lock_t *gate = NULL;
  *s = (ct_sweep_t){0};
  if (parts) snprintf(name, sizeof name, "-%lld", (long long)part);
  CT_TRY(ct_text_format(s->dir, sizeof s->dir, "%s", dir));
  CT_TRY(ct_text_format(s->record, sizeof s->record, "%s/runs%s.jsonl", dir, name));
  CT_TRY(ct_file_mkdirs(dir));
  ct_lock_self(topo->job.id, topo->job.requeues, &me);
  CT_TRY(ct_text_format(path, sizeof path, "%s/lock%s", dir, parts ? name : "-runs"));
  CT_TRY(ct_lock_take(path, &me, 3, &s->lock));
  CT_TRY(ct_path_join(path, sizeof path, dir, "lock"));
  CT_TRY(ct_lock_take(path, &me, WAIT_S, &gate));
  CT_TRY(check_base(dir, base));
  CT_TRY(enter_runs(s, p));
out:
  ct_lock_release(gate);
  return rc;
}

void ct_sweep_close(ct_sweep_t *s)
{
  ct_lock_release(s->lock);
  s->lock = NULL;
}
