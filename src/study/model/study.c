/* Reads points.jsonl.  The rounds of a configuration are combined, from all launches of `scale` in
 * this directory: the time breakdown is a mean weighted by steps, so that it adds up; the step time
 * is the median of the rounds, which has an interval. */
#include "study/model/ct_study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

/* A round is identified by the number of the launch of `scale` and the number of the round in this
 * launch. */
enum { LAUNCH_PAIRS = 1 << 15, ROUND_PAIRS = 1 << 15, MOST = 10000000 };

/* The current line, with its position for error messages. */
typedef struct line {
  const char *path;
  int number;
  const json_t *o;
} line_t;

/* ---- values ---- */

static int number(const line_t *l, const json_t *o, const char *key, double least, double *out)
{
  int rc = CT_OK;
  const json_t *v = json_object_get(o, key);
  if (!v || json_is_null(v)) return CT_OK; /* not measured */
  double x = json_number_value(v);
  if (!json_is_number(v) || !isfinite(x) || x < least)
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: %s: expected a number >= %g", l->path, l->number, key, least);
  *out = x;
out:
  return rc;
}

static int study_count(const line_t *l, const char *key, int otherwise, int *out)
{
  int rc = CT_OK;
  double v = otherwise;
  CT_TRY(number(l, l->o, key, otherwise < 1 ? 0 : 1, &v));
  if (v > MOST || v != floor(v))
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: %s: expected an integer up to %d", l->path, l->number, key,
            MOST);
  *out = (int)v;
out:
  return rc;
}

static void words(const json_t *o, const char *key, char *out, size_t cap)
{
  const char *text = json_string_value(json_object_get(o, key));
  if (text) snprintf(out, cap, "%s", text);
}

/* ---- sizes ---- */

static int same_size(const ct_study_size_t *a, const ct_study_size_t *b)
{
  return a->kind == b->kind && a->ranks == b->ranks && a->nodes == b->nodes &&
         a->threads == b->threads && a->batch == b->batch && a->local_batch == b->local_batch;
}

static int find_size(ct_study_t *s, const ct_study_size_t *like, ct_study_size_t **out)
{
  int rc = CT_OK;
  for (int i = 0; i < s->sizes; i++)
    if (same_size(&s->size[i], like)) {
      *out = &s->size[i];
      return CT_OK;
    }
  CT_TRY(ct_mem_grow((void **)&s->size, &s->cap, s->sizes + 1, sizeof *s->size));
  *out = &s->size[s->sizes++];
  **out = *like;
  (*out)->breakdown.slowest = -1;
out:
  return rc;
}

static int study_kind_of(const line_t *l, int *out)
{
  static const char *const names[] = {"run", "alone", "neighbours"};
  int rc = CT_OK;
  const char *text = json_string_value(json_object_get(l->o, "kind"));
  *out = CT_STUDY_RUN;
  if (!text) return CT_OK;
  for (int i = 0; i < 3; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = i;
      return CT_OK;
    }
  CT_FAIL(CT_ERR_FORMAT, "%s:%d: kind is '%s'; expected run, alone or neighbours", l->path,
          l->number, text);
out:
  return rc;
}

static int algorithm_of(const line_t *l, int *out)
{
  static const struct {
    const char *name;
    int algorithm;
  } names[] = {{"auto", -1},
               {"ring", CT_COMM_RING},
               {"halving", CT_COMM_HALVING},
               {"exchange", CT_COMM_EXCHANGE}};
  int rc = CT_OK;
  const char *text = json_string_value(json_object_get(l->o, "algorithm"));
  *out = -1;
  if (!text) return CT_OK;
  for (int i = 0; i < 4; i++)
    if (strcmp(text, names[i].name) == 0) {
      *out = names[i].algorithm;
      return CT_OK;
    }
  CT_FAIL(CT_ERR_FORMAT, "%s:%d: algorithm is '%s'; expected auto, halving, exchange or ring",
          l->path, l->number, text);
out:
  return rc;
}

static int read_size(const line_t *l, ct_study_size_t *z)
{
  int rc = CT_OK;
  if (!json_object_get(l->o, "ranks"))
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: the key `ranks` of the point is missing", l->path, l->number);
  *z = (ct_study_size_t){.kind = CT_STUDY_RUN};
  CT_TRY(study_kind_of(l, &z->kind));
  CT_TRY(algorithm_of(l, &z->algorithm));
  CT_TRY(study_count(l, "ranks", 1, &z->ranks));
  CT_TRY(study_count(l, "nodes", 1, &z->nodes));
  CT_TRY(study_count(l, "local_ranks", (z->ranks + z->nodes - 1) / z->nodes, &z->local_ranks));
  CT_TRY(study_count(l, "threads", 1, &z->threads));
  z->local_batch = 1;
  CT_TRY(number(l, l->o, "local_batch", 0, &z->local_batch));
  z->batch = z->local_batch * z->ranks;
  CT_TRY(number(l, l->o, "batch", 0, &z->batch));
  CT_TRY(number(l, l->o, "gradient_bytes", 0, &z->gradient_bytes));
out:
  return rc;
}

/* ---- time breakdown ---- */

static int read_kinds(const line_t *l, const json_t *breakdown, ct_step_times_t *t)
{
  int rc = CT_OK;
  const json_t *kinds = json_object_get(breakdown, "kinds_s");
  for (int k = 0; k < CT_TIME_KINDS; k++)
    CT_TRY(number(l, kinds, ct_step_time_name(k), -1e9, &t->s[k]));
out:
  return rc;
}

static int read_breakdown(const line_t *l, const json_t *o, ct_study_breakdown_t *a)
{
  int rc = CT_OK;
  struct {
    const char *key;
    double *to;
  } all[] = {{"step_s", &a->mean.step_s},
             {"busy_s", &a->mean.busy_s},
             {"imbalance_steady_s", &a->mean.steady_s},
             {"imbalance_random_s", &a->mean.random_s},
             {"transfer_s", &a->mean.transfer_s},
             {"busy_sd_s", &a->mean.busy_sd_s},
             {"slowest_taken_s", &a->slowest_offcpu_s},
             {"taken_s", &a->offcpu_s},
             {"step_p50_s", &a->p50_s},
             {"step_p95_s", &a->p95_s},
             {"step_p99_s", &a->p99_s},
             {"step_max_s", &a->max_s}};
  double steps = 0, slowest = -1;
  CT_TRY(number(l, o, "steps", 0, &steps));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    CT_TRY(number(l, o, all[i].key, -1e9, all[i].to));
  CT_TRY(read_kinds(l, o, &a->mean.kinds));
  CT_TRY(number(l, o, "slowest_rank", -1, &slowest));
  a->slowest = (int)slowest;
  words(o, "slowest_host", a->slowest_host, sizeof a->slowest_host);
  words(o, "slowest_kind", a->slowest_kind, sizeof a->slowest_kind);
  a->steps = a->most = (int64_t)steps;
  a->bins = json_object_get(o, "bins");
  a->ranks_busy_s = json_object_get(l->o, "ranks_busy_s");
out:
  return rc;
}

static void add_breakdown(ct_study_breakdown_t *sum, const ct_study_breakdown_t *more)
{
  enum { N = sizeof(ct_study_means_t) / sizeof(double) };
  ct_study_means_t mean = sum->mean;
  int64_t steps = sum->steps + more->steps;
  double *to = (double *)&mean, weight = (double)more->steps / (double)steps;
  const double *from = (const double *)&more->mean;
  for (int i = 0; i < N; i++)
    to[i] += weight * (from[i] - to[i]);
  if (more->most >= sum->most) *sum = *more;
  sum->mean = mean;
  sum->steps = steps;
}

/* ---- lines ---- */

static int read_energy(const line_t *l, ct_study_size_t *z)
{
  int rc = CT_OK;
  double joule = 0, steps = 0;
  if (!json_object_get(l->o, "energy_j")) return CT_OK;
  CT_TRY(number(l, l->o, "energy_j", 0, &joule));
  CT_TRY(number(l, l->o, "steps", 0, &steps));
  z->energy_j += joule;
  z->energy_samples += steps * z->batch;
out:
  return rc;
}

static int add_round(const line_t *l, ct_study_size_t *z)
{
  int rc = CT_OK, round = z->rounds, launch = 0;
  double step_s = 0;
  ct_study_breakdown_t breakdown = {.slowest = -1};
  const json_t *o = json_object_get(l->o, "account");
  CT_TRY(number(l, l->o, "step_s", 0, &step_s));
  if (step_s <= 0)
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: the key `step_s` of the point must be a number above 0", l->path,
            l->number);
  CT_TRY(study_count(l, "block", round, &round));
  CT_TRY(study_count(l, "launch", 0, &launch));
  if (o) CT_TRY(read_breakdown(l, o, &breakdown));
  CT_TRY(read_energy(l, z));
  if (breakdown.steps) add_breakdown(&z->breakdown, &breakdown);
  if (z->rounds == CT_STUDY_ROUNDS) return CT_OK;
  z->round_s[z->rounds] = step_s;
  z->round[z->rounds++] = launch % LAUNCH_PAIRS * ROUND_PAIRS + round % ROUND_PAIRS;
out:
  return rc;
}

static int read_point(const line_t *l, ct_study_t *s)
{
  int rc = CT_OK;
  ct_study_size_t like, *z;
  CT_TRY(read_size(l, &like));
  CT_TRY(find_size(s, &like, &z));
  if (like.gradient_bytes > 0) z->gradient_bytes = like.gradient_bytes;
  if (json_object_get(l->o, "error"))
    words(l->o, "error", z->error, sizeof z->error);
  else
    CT_TRY(add_round(l, z));
out:
  return rc;
}

static int read_timeline(const line_t *l, ct_study_t *s)
{
  int rc = CT_OK;
  const json_t *launches = json_object_get(l->o, "works");
  int n = (int)json_array_size(launches);
  if (n < 1)
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: the key `works` of the timeline must be a list of launches",
            l->path, l->number);
  ct_mem_free(s->timeline.launch);
  s->timeline =
      (ct_timeline_t){.launch = ct_mem_array(n, sizeof *s->timeline.launch, "a timeline")};
  if (!s->timeline.launch) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < n; i++) {
    const json_t *w = json_array_get(launches, (size_t)i);
    double share = json_number_value(json_array_get(w, 0)),
           bytes = json_number_value(json_array_get(w, 1));
    if (json_array_size(w) != 2 || !(share >= 0) || !(bytes >= 0))
      CT_FAIL(CT_ERR_FORMAT, "%s:%d: works[%d]: expected [fraction of the time, bytes]", l->path,
              l->number, i);
    s->timeline.launch[i] = (ct_timeline_launch_t){share, bytes};
  }
  s->timeline.launches = n;
  CT_TRY(study_count(l, "loss", 0, &s->timeline.loss));
  CT_TRY(number(l, l->o, "bucket_bytes", 0, &s->timeline_bucket_bytes));
  CT_TRY(number(l, l->o, "local_batch", 0, &s->timeline_local_batch));
out:
  return rc;
}

/* Reads the line that begins a launch of `scale`. */
static int read_head(const line_t *l, ct_study_t *s)
{
  int rc = CT_OK;
  char by[64] = "";
  const char *version = json_string_value(json_object_get(l->o, "version"));
  if (version) snprintf(by, sizeof by, "%s", version);
  CT_TRY(ct_format_line(s->path, json_integer_value(json_object_get(l->o, "format")),
                        "ctrain-hpc study", CT_FORMAT_STUDY, by));
  s->about = (json_t *)(uintptr_t)l->o;
out:
  return rc;
}

static int study_read_line(const line_t *l, ct_study_t *s)
{
  const char *event = json_string_value(json_object_get(l->o, "event"));
  if (!event) return CT_OK;
  if (strcmp(event, "study") == 0) return read_head(l, s);
  if (strcmp(event, "timeline") == 0) return read_timeline(l, s);
  return strcmp(event, "point") == 0 ? read_point(l, s) : CT_OK;
}

/* A killed study may leave an incomplete last line, without a newline: it is ignored. */
static int read_lines(char *text, ct_study_t *s)
{
  int rc = CT_OK, n = 0;
  for (char *begin = text, *end; *begin; begin = end + 1) {
    json_error_t why;
    if (!(end = strchr(begin, '\n'))) break;
    line_t l = {s->path, ++n, NULL};
    json_t *o = json_loadb(begin, (size_t)(end - begin), JSON_ALLOW_NUL, &why);
    if (!json_is_object(o)) {
      json_decref(o);
      CT_FAIL(CT_ERR_FORMAT, "%s:%d: expected a JSON object: %s", s->path, n,
              o ? "another type" : why.text);
    }
    l.o = o;
    if (json_array_append_new(s->lines, o) != 0) CT_FAIL(CT_ERR_NOMEM, "no memory for a study");
    CT_TRY(study_read_line(&l, s));
  }
out:
  return rc;
}

/* ---- all of it ---- */

static int by_size(const void *a, const void *b)
{
  const ct_study_size_t *x = a, *y = b;
  if (x->kind != y->kind) return x->kind - y->kind;
  if (x->ranks != y->ranks) return x->ranks - y->ranks;
  if (x->nodes != y->nodes) return x->nodes - y->nodes;
  if (x->threads != y->threads) return x->threads - y->threads;
  return (x->batch > y->batch) - (x->batch < y->batch);
}

static void study_sum_up(ct_study_size_t *z)
{
  double sorted[CT_STUDY_ROUNDS];
  memcpy(sorted, z->round_s, sizeof sorted);
  if (!z->rounds) return;
  ct_study_ratio_t m = ct_study_median(sorted, z->rounds);
  z->median_s = m.median;
  z->low_s = m.low;
  z->high_s = m.high;
  z->covers = m.covers;
  z->error[0] = '\0';
}

int ct_study_read(const char *path, ct_study_t *s)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes;
  *s = (ct_study_t){.lines = json_array()};
  if (!s->lines) CT_FAIL(CT_ERR_NOMEM, "no memory for a study");
  if (ct_file_is_dir(path))
    CT_TRY(ct_path_join(s->path, sizeof s->path, path, "points.jsonl"));
  else
    CT_TRY(ct_text_format(s->path, sizeof s->path, "%s", path));
  CT_TRY(ct_file_regular(s->path));
  CT_TRY(ct_file_read(s->path, &text, &bytes));
  CT_TRY(read_lines(text, s));
  if (!s->sizes)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains no measurements (lines with the event `point`)", s->path);
  qsort(s->size, (size_t)s->sizes, sizeof *s->size, by_size);
  for (int i = 0; i < s->sizes; i++)
    study_sum_up(&s->size[i]);
out:
  ct_mem_free(text);
  if (rc != CT_OK) ct_study_clear(s);
  return rc;
}

void ct_study_clear(ct_study_t *s)
{
  ct_mem_free(s->size);
  ct_mem_free(s->timeline.launch);
  json_decref(s->lines);
  *s = (ct_study_t){0};
}
