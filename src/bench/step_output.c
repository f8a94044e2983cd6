/* Output of `bench step`: a table with a column for each mode, or one JSON object for each. */
#include "bench/step_output.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"

/* What of the batch is in the times. */
static const char *batch_text(int where)
{
  switch (where) {
  case CT_BENCH_COPIED:
    return "the batch is copied to the device in each step";
  case CT_BENCH_ON_DEVICE:
    return "the batch stays on the device: its copy is not included (--copy includes it)";
  default:
    return "the batch stays in memory and is used in place";
  }
}

static json_t *as_object(const ct_bench_t *b)
{
  json_t *o = json_pack(
      "{s:i, s:i, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "ranks",
      b->ranks, "threads", b->threads, "batch", (json_int_t)b->batch, "steps", b->steps, "step_s",
      b->breakdown.step_s, "step_s_median", b->median, "step_s_min", b->breakdown.step_min_s,
      "step_s_max", b->breakdown.step_max_s, "compute_s", b->compute, "comm_exposed_s",
      b->comm_exposed, "other_s", b->other, "samples_per_s", b->rate, "sent_bytes_max", b->sent,
      "sent_bytes_mean", b->sent_mean, "account", ct_breakdown_json(&b->breakdown));
  if (!o) return NULL;
  json_object_set_new(o, "batch_copied", json_boolean(b->where == CT_BENCH_COPIED));
  json_object_set_new(o, "activation_bytes", json_integer((json_int_t)b->activations));
  json_object_set_new(o, "arena_bytes", json_integer((json_int_t)b->arenas));
  json_object_set_new(o, "peak_rss_bytes",
                      b->peak ? json_integer((json_int_t)b->peak) : json_null());
  json_object_set_new(o, "pages", *b->pages ? json_string(b->pages) : json_null());
  if (b->mode) json_object_set_new(o, "mode", json_string(b->mode));
  return o;
}

int ct_bench_json(const ct_bench_t *b, int n, json_t *more, ct_str_t *out)
{
  json_t *o = b->mode ? json_array() : as_object(b);
  for (int i = 0; o && b->mode && i < n; i++)
    json_array_append_new(o, as_object(&b[i]));
  if (o && !b->mode && more) json_object_update(o, more);
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

static int as_lines(const ct_bench_t *b, ct_str_t *out)
{
  int rc = CT_OK;
  char peak[32], sent[32], activations[32], arenas[32];
  CT_TRY(
      ct_str_add(out,
                 "%d rank%s x %d thread%s, global batch %lld, %d steps\n"
                 "  step            %.3f ms (mean; median %.3f, min %.3f, max %.3f)\n"
                 "    compute       %.3f ms, with the update\n"
                 "    communication %.3f ms not hidden\n"
                 "    other         %.3f ms\n"
                 "  (%s)\n"
                 "  sent            %s a step and rank\n"
                 "  samples/s       %.1f\n"
                 "  memory          %s of activations, %s of arenas, %s at the peak, on rank 0\n",
                 b->ranks, b->ranks == 1 ? "" : "s", b->threads, b->threads == 1 ? "" : "s",
                 (long long)b->batch, b->steps, 1e3 * b->breakdown.step_s, 1e3 * b->median,
                 1e3 * b->breakdown.step_min_s, 1e3 * b->breakdown.step_max_s, 1e3 * b->compute,
                 1e3 * b->comm_exposed, 1e3 * b->other, batch_text(b->where),
                 ct_text_bytes(b->sent, sent, sizeof sent), b->rate,
                 ct_text_bytes((double)b->activations, activations, sizeof activations),
                 ct_text_bytes((double)b->arenas, arenas, sizeof arenas),
                 ct_text_bytes((double)b->peak, peak, sizeof peak)));
  if (*b->pages) CT_TRY(ct_str_add(out, "  pages           %s\n", b->pages));
out:
  return rc;
}

static const ct_bench_t *reference(const ct_bench_t *b, int n)
{
  for (int i = 0; i < n; i++)
    if (strcmp(b[i].mode, "ddp") == 0) return &b[i];
  return b;
}

int ct_bench_text(const ct_bench_t *b, int n, ct_str_t *out)
{
  int rc = CT_OK;
  char peak[32], most[32], mean[32], against[32];
  if (!b->mode) return as_lines(b, out);
  const ct_bench_t *one = reference(b, n);
  snprintf(against, sizeof against, "vs %s", one->mode);
  CT_TRY(ct_str_add(
      out, "global batch %lld, %d steps each; step, compute and communication in ms: means\n(%s)\n",
      (long long)b->batch, b->steps, batch_text(b->where)));
  CT_TRY(ct_str_add(out, "%-8s %5s %10s %10s %12s %10s %12s %12s %12s %9s\n", "mode", "ranks",
                    "step", "compute", "comm exposed", "samples/s", "sent, most", "sent, mean",
                    "peak, rank 0", against));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(out, "%-8s %5d %10.3f %10.3f %12.3f %10.1f %12s %12s %12s %8.2fx\n",
                      b[i].mode, b[i].ranks, 1e3 * b[i].breakdown.step_s, 1e3 * b[i].compute,
                      1e3 * b[i].comm_exposed, b[i].rate,
                      ct_text_bytes(b[i].sent, most, sizeof most),
                      ct_text_bytes(b[i].sent_mean, mean, sizeof mean),
                      b[i].peak ? ct_text_bytes((double)b[i].peak, peak, sizeof peak) : "-",
                      b[i].rate / one->rate));
out:
  return rc;
}
