/* A study's directory.  points.jsonl gets a line after each round, so that an interrupted study
 * resumes without measuring anything twice. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/measure/ct_scale.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "config.h"

static const char *const kinds[] = {"run", "alone", "neighbours"};

/* ---- lines ---- */

static int add_head(const ct_scale_study_t *s, const ct_scale_opts_t *o, json_t *machine,
                    uint64_t key)
{
  char hex[20];
  const char *name = strrchr(s->dir, '/');
  snprintf(hex, sizeof hex, "%016" PRIx64, key);
  return ct_json_append(
      s->points, json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:O}", "event", "study",
                           "format", CT_FORMAT_STUDY, "name", name ? name + 1 : s->dir, "mode",
                           o->weak ? "weak" : "strong", "config", o->config, "version",
                           PACKAGE_VERSION, "key", hex, "launch", s->launch, "machine", machine));
}

static int add_timeline(ct_scale_study_t *s, json_t *timeline)
{
  int rc = CT_OK;
  CT_TRY(ct_json_append(s->points, json_incref(timeline)));
  s->timeline = 1;
out:
  return rc;
}

int ct_scale_add(ct_scale_study_t *s, const ct_scale_config_t *p, int round,
                 const ct_scale_round_t *b, const char *error)
{
  int apart = p->kind == CT_STUDY_NEIGHBOURS;
  json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:f}", "event", "point",
                        "kind", kinds[p->kind], "launch", s->launch, "block", round, "ranks",
                        p->ranks, "nodes", p->nodes, "local_ranks", p->local_ranks, "threads",
                        p->threads, "batch", (json_int_t)p->batch * (apart ? p->ranks : 1),
                        "local_batch", (double)p->batch / (apart ? 1 : p->ranks));
  if (!o) return ct_json_append(s->points, NULL);
  if (error) {
    json_object_set_new(o, "error", ct_json_words(error));
    return ct_json_append(s->points, o);
  }
  json_object_update(o, b->conditions);
  json_object_set_new(o, "steps", json_integer(b->steps));
  json_object_set_new(o, "warmup", json_integer(b->warmup));
  json_object_set_new(o, "setup_s", json_real(b->setup_s));
  json_object_set_new(o, "kept", json_boolean(b->kept));
  json_object_set(o, "step_s", json_object_get(b->breakdown, "step_s"));
  json_object_set_new(o, "gradient_bytes", json_real(b->gradient_bytes));
  if (b->energy.joule >= 0 && !apart) {
    json_object_set_new(o, "energy_j", json_real(b->energy.joule));
    json_object_set_new(o, "energy_from", ct_json_words(b->energy.from));
  }
  json_object_set(o, "account", b->breakdown);
  if (b->ranks_busy_s) json_object_set(o, "ranks_busy_s", b->ranks_busy_s);
  int rc = ct_json_append(s->points, o);
  return rc == CT_OK && b->timeline ? add_timeline(s, b->timeline) : rc;
}

/* ---- earlier results ---- */

static const ct_study_size_t *record_find(const ct_study_t *study, const ct_scale_config_t *p)
{
  double batch = (double)p->batch * (p->kind == CT_STUDY_NEIGHBOURS ? p->ranks : 1);
  for (int i = 0; i < study->sizes; i++) {
    const ct_study_size_t *z = &study->size[i];
    if (z->kind == p->kind && z->ranks == p->ranks && z->nodes == p->nodes &&
        z->threads == p->threads && z->batch == batch)
      return z;
  }
  return NULL;
}

int ct_scale_settle(const ct_scale_study_t *s, const ct_scale_opts_t *o, ct_scale_config_t *config,
                    int n)
{
  enum { MOST = 5 };
  int rc = CT_OK;
  ct_study_t study = {0};
  CT_TRY(ct_study_read(s->dir, &study));
  for (int i = 0; i < n; i++) {
    const ct_study_size_t *z = record_find(&study, &config[i]);
    if (!z || config[i].settled) continue;
    config[i].rounds = z->rounds;
    int narrow = z->rounds && z->high_s - z->low_s <= 2 * o->error * z->median_s;
    config[i].settled = z->rounds >= o->rounds && (narrow || z->rounds >= MOST * o->rounds);
  }
out:
  ct_study_clear(&study);
  return rc;
}

static int check_key(ct_scale_study_t *s, uint64_t key, int *launches)
{
  int rc = CT_OK;
  ct_study_t study = {0};
  CT_TRY(ct_study_read(s->dir, &study));
  const char *text = json_string_value(json_object_get(study.about, "key"));
  s->timeline = study.timeline.launches > 0;
  *launches = 1 + (int)json_integer_value(json_object_get(study.about, "launch"));
  if (!text || strtoull(text, NULL, 16) != key)
    CT_FAIL(CT_ERR_USAGE,
            "%s has a study of another configuration, program or machine, whose results cannot be "
            "combined with new ones; choose another --dir",
            s->dir);
out:
  ct_study_clear(&study);
  return rc;
}

int ct_scale_open(const char *dir, const ct_scale_opts_t *o, const ct_topo_t *topo, uint64_t key,
                  json_t *machine, ct_scale_config_t *config, int n, ct_scale_study_t *s)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_lock_owner_t me;
  *s = (ct_scale_study_t){0};
  CT_TRY(ct_text_format(s->dir, sizeof s->dir, "%s", dir));
  CT_TRY(ct_path_join(s->points, sizeof s->points, dir, "points.jsonl"));
  CT_TRY(ct_file_mkdirs(dir));
  CT_TRY(ct_path_join(path, sizeof path, dir, "lock"));
  ct_lock_self(topo->job.id, topo->job.requeues, &me);
  CT_TRY(ct_lock_take(path, &me, 3, &s->lock));
  CT_TRY(ct_json_heal(s->points));
  if (ct_file_exists(s->points)) {
    CT_TRY(check_key(s, key, &s->launch));
    CT_TRY(add_head(s, o, machine, key));
    CT_TRY(ct_scale_settle(s, o, config, n));
  } else {
    CT_TRY(add_head(s, o, machine, key));
  }
out:
  return rc;
}

void ct_scale_close(ct_scale_study_t *s)
{
  ct_lock_release(s->lock);
  s->lock = NULL;
}
