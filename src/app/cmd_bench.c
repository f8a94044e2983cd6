#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/result.h"
#include "app/setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Seconds of every timed step on this rank. */
typedef struct times {
  int n;
  double *step, *compute, *comm_exposed;
} times_t;

static int alloc_times(times_t *t, int n)
{
  t->n = n;
  t->step = ct_mem_array(3 * (int64_t)n, sizeof(double), "timings");
  if (!t->step) return CT_ERR_NOMEM;
  t->compute = t->step + n;
  t->comm_exposed = t->step + 2 * n;
  return CT_OK;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *v, int n)
{
  qsort(v, (size_t)n, sizeof *v, ascending);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Always the same batch: reading data is not what is measured. */
static int run_steps(ct_setup_t *s, const ct_batch_t *b, int warmup, times_t *t)
{
  int rc = CT_OK;
  for (int i = -warmup; i < t->n; i++) {
    ct_step_word_t word = {0};
    ct_step_report_t times = {0};
    double begin = ct_clock();
    CT_TRY(ct_trainer_step(s->trainer, b, CT_OK, &(ct_schedule_point_t){0}, &word, &times));
    if (i < 0) continue;
    t->step[i] = ct_clock() - begin;
    t->compute[i] = times.compute_s;
    t->comm_exposed[i] = times.comm_exposed_s;
  }
out:
  return rc;
}

/* The result of one rank's clock; all ranks end each step together. */
typedef struct verdict {
  int ranks, threads, steps;
  int64_t batch;
  double step, fastest, slowest, compute, comm_exposed, rate;
  size_t peak, activations, arenas;
} verdict_t;

static verdict_t judge(const ct_setup_t *s, times_t *t, int64_t batch)
{
  verdict_t v = {.ranks = s->topo->size,
                 .threads = ct_setup_threads(&s->cfg, s->topo->threads),
                 .steps = t->n,
                 .batch = batch,
                 .step = median(t->step, t->n),
                 .compute = median(t->compute, t->n),
                 .comm_exposed = median(t->comm_exposed, t->n),
                 .peak = ct_mem_peak_rss()};
  ct_trainer_bytes(s->trainer, &v.activations, &v.arenas);
  v.fastest = t->step[0];
  v.slowest = t->step[t->n - 1];
  v.rate = (double)batch / v.step;
  return v;
}

static int as_json(const verdict_t *v, ct_str_t *out)
{
  json_t *o = json_pack(
      "{s:i, s:i, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "ranks", v->ranks,
      "threads", v->threads, "batch", (json_int_t)v->batch, "steps", v->steps, "step_s", v->step,
      "step_s_min", v->fastest, "step_s_max", v->slowest, "compute_s", v->compute, "comm_exposed_s",
      v->comm_exposed, "samples_per_s", v->rate, "peak_rss_bytes", (json_int_t)v->peak,
      "activation_bytes", (json_int_t)v->activations, "arena_bytes", (json_int_t)v->arenas);
  int rc = ct_result_json(o, out);
  json_decref(o);
  return rc;
}

static int as_text(const verdict_t *v, ct_str_t *out)
{
  char peak[32], activations[32], arenas[32];
  return ct_str_add(
      out,
      "%d rank%s x %d thread%s, global batch %lld, %d steps\n"
      "  step            %.3f ms (median; min %.3f, max %.3f)\n"
      "  compute         %.3f ms\n"
      "  communication   %.3f ms not hidden\n"
      "  samples/s       %.1f\n"
      "  memory          %s of activations, %s of arenas, %s at the peak, on rank 0\n",
      v->ranks, v->ranks == 1 ? "" : "s", v->threads, v->threads == 1 ? "" : "s",
      (long long)v->batch, v->steps, 1e3 * v->step, 1e3 * v->fastest, 1e3 * v->slowest,
      1e3 * v->compute, 1e3 * v->comm_exposed, v->rate,
      ct_text_bytes((double)v->activations, activations, sizeof activations),
      ct_text_bytes((double)v->arenas, arenas, sizeof arenas),
      ct_text_bytes((double)v->peak, peak, sizeof peak));
}

static int print(const verdict_t *v, int json)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  CT_TRY(json ? as_json(v, &out) : as_text(v, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* The first batch of the data, kept by a feed that is not asked again. */
static int open_batch(const ct_setup_t *s, ct_feed_t **feed, const ct_batch_t **out)
{
  int rc = CT_OK;
  ct_sampler_t sampler = {.seed = (uint64_t)s->cfg.run.seed,
                          .samples = s->data.info.samples,
                          .batch = s->cfg.data.batch,
                          .shuffle = s->cfg.data.shuffle,
                          .parts = s->recipe.parts};
  CT_TRY(ct_feed_open(&s->data, &sampler, s->topo->rank, s->topo->size, 0, 0, 0, 1, feed));
  CT_TRY(ct_feed_next(*feed, out));
out:
  return rc;
}

int ct_cmd_bench(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t steps, warmup;
  ct_setup_t s = {.topo = topo};
  ct_feed_t *feed = NULL;
  const ct_batch_t *batch;
  times_t t = {0};
  (void)status;
  if (strcmp(a->rest[0], "step") != 0)
    CT_FAIL(CT_ERR_USAGE, "bench: cannot measure '%s'; there is 'step'", a->rest[0]);
  CT_TRY(ct_args_int(a, "steps", 20, 1, 1000000, &steps));
  CT_TRY(ct_args_int(a, "warmup", 3, 0, 1000000, &warmup));
  CT_TRY(ct_setup_config(&s, a->rest[1], a));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 1, 0));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_setup_trainer(&s, 1));
  CT_TRY_ALL(topo, open_batch(&s, &feed, &batch));
  CT_TRY_ALL(topo, alloc_times(&t, (int)steps));
  CT_TRY(run_steps(&s, batch, (int)warmup, &t));
  verdict_t v = judge(&s, &t, batch->global);
  CT_TRY_ALL(topo, topo->rank == 0 ? print(&v, ct_args_get(a, "json") != NULL) : CT_OK);
out:
  ct_mem_free(t.step);
  ct_feed_close(feed);
  ct_setup_close(&s);
  return rc;
}
