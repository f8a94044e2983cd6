/* The time breakdown as JSON, for `account` lines of metrics.jsonl, the end of a run, and points of
 * a scaling study. */
#include <math.h>

#include "base/ct_json.h"
#include "telemetry/ct_time_breakdown.h"

static int time_breakdown_json_put(json_t *o, const char *key, json_t *value)
{
  return json_object_set_new(o, key, value);
}

static int put_num(json_t *o, const char *key, double v)
{
  return time_breakdown_json_put(o, key, isfinite(v) ? json_real(v) : json_null());
}

static json_t *kinds(const ct_step_times_t *t)
{
  json_t *o = json_object();
  int bad = !o;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    bad |= put_num(o, ct_step_time_name(k), t->s[k]);
  if (!bad) return o;
  json_decref(o);
  return NULL;
}

static json_t *bins(const ct_breakdown_sum_t *s)
{
  json_t *o = json_array();
  int bad = !o;
  for (int i = 0; i < CT_BREAKDOWN_BINS; i++)
    if (s->bin[i])
      bad |= json_array_append_new(
          o, json_pack("[f, I]", CT_BREAKDOWN_FIRST_S * exp2(i / 8.0), (json_int_t)s->bin[i]));
  if (!bad) return o;
  json_decref(o);
  return NULL;
}

static int put_sums(json_t *o, const ct_breakdown_sum_t *s)
{
  double busiest = s->busy_s + s->imbalance_s;
  return put_num(o, "step_s", s->step_s) | put_num(o, "busy_s", s->busy_s) |
         put_num(o, "imbalance_s", s->imbalance_s) | put_num(o, "transfer_s", s->transfer_s) |
         put_num(o, "imbalance_steady_s", s->steady_s) |
         put_num(o, "imbalance_random_s", s->random_s) | put_num(o, "busy_sd_s", s->busy_sd_s) |
         put_num(o, "load_balance", s->busy_s / busiest) |
         put_num(o, "communication_efficiency", busiest / s->step_s) |
         put_num(o, "parallel_efficiency", s->busy_s / s->step_s);
}

static int put_lengths(json_t *o, const ct_breakdown_sum_t *s)
{
  return put_num(o, "step_min_s", s->step_min_s) |
         put_num(o, "step_p50_s", ct_breakdown_quantile(s, 0.5)) |
         put_num(o, "step_p95_s", ct_breakdown_quantile(s, 0.95)) |
         put_num(o, "step_p99_s", ct_breakdown_quantile(s, 0.99)) |
         put_num(o, "step_max_s", s->step_max_s) | time_breakdown_json_put(o, "bins", bins(s));
}

static int put_offcpu(json_t *o, const char *key, double s)
{
  return put_num(o, key, s < 0 ? NAN : s);
}

static int put_slowest(json_t *o, const ct_breakdown_sum_t *s)
{
  if (s->slowest < 0) return 0;
  return time_breakdown_json_put(o, "slowest_rank", json_integer(s->slowest)) |
         time_breakdown_json_put(o, "slowest_host",
                                 *s->slowest_host ? ct_json_words(s->slowest_host) : json_null()) |
         time_breakdown_json_put(o, "slowest_kind",
                                 json_string(ct_step_time_name(s->slowest_kind))) |
         put_offcpu(o, "slowest_taken_s", s->slowest_offcpu_s) |
         put_offcpu(o, "taken_s", s->offcpu_s);
}

json_t *ct_breakdown_json(const ct_breakdown_sum_t *s)
{
  json_t *o = json_object();
  int bad = !o || time_breakdown_json_put(o, "steps", json_integer(s->steps)) ||
            time_breakdown_json_put(o, "samples", json_integer(s->samples)) ||
            time_breakdown_json_put(o, "ranks", json_integer(s->ranks)) || put_sums(o, s) ||
            put_slowest(o, s) || time_breakdown_json_put(o, "kinds_s", kinds(&s->mean)) ||
            time_breakdown_json_put(o, "kinds_max_s", kinds(&s->max)) || put_lengths(o, s);
  if (!bad) return o;
  json_decref(o);
  return NULL;
}
