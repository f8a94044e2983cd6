/* `bench step`: times training steps on one batch that stays in memory. */
#include <string.h>

#include "bench/step_output.h"
#include "bench/ct_bench.h"
#include "setup/ct_setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "host/ct_numa.h"

/* ---- steps ---- */

/* The timed steps of this rank. */
typedef struct times {
  int n;
  double *step; /* owned; seconds of each step */
  ct_breakdown_t *breakdown;
  int64_t sent; /* bytes sent in all steps */
} times_t;

static int alloc_times(const ct_topo_t *topo, times_t *t, int n)
{
  int rc = CT_OK;
  t->n = n;
  t->step = ct_mem_array(n, sizeof(double), "timings");
  CT_TRY_ALL(topo, t->step ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_breakdown_open(topo, 0, &t->breakdown));
out:
  return rc;
}

/* Runs the steps.  All steps use the same batch, so the time does not include reading it. */
static int run_steps(ct_setup_t *s, ct_steps_t *steps, int warmup, times_t *t)
{
  int rc = CT_OK;
  for (int i = -warmup; i < t->n; i++) {
    ct_step_status_t status = {0};
    ct_step_report_t report = {0};
    if (i == 0) t->sent = -s->comm_ops->bytes_sent(s->comm);
    CT_TRY(ct_steps_next(steps, &(ct_schedule_point_t){0}, &status, &report, NULL));
    if (i < 0) continue;
    t->step[i] = ct_step_times_all(&report.times);
    ct_breakdown_step(t->breakdown, &status, &report);
  }
  t->sent += s->comm_ops->bytes_sent(s->comm);
  CT_TRY(ct_steps_settle(steps));
out:
  return rc;
}

/* After steps, when the arenas have been touched. */
static void describe_pages(char *buf, size_t cap)
{
  ct_machine_t m;
  ct_numa_t n;
  ct_machine_read(&m, 0);
  if (m.numa_nodes < 2) return;
  ct_numa_read("", NULL, &n);
  ct_numa_text(&n, &m, buf, cap);
}

/* Collective.  Combines the measurements of all ranks. */
static int judge(const ct_setup_t *s, times_t *t, int64_t batch, ct_bench_t *b)
{
  int rc = CT_OK;
  double most = (double)t->sent / t->n, sum = most;
  CT_TRY(ct_agree_doubles(s->topo, &most, 1, 1));
  CT_TRY(ct_agree_doubles(s->topo, &sum, 1, 0));
  b->ranks = s->topo->size;
  b->threads = ct_setup_threads(&s->cfg, s->topo->threads);
  b->steps = t->n;
  b->batch = batch;
  b->median = ct_clock_median(t->step, t->n);
  ct_breakdown_collect(t->breakdown, &b->breakdown);
  const double *mean = b->breakdown.mean.s;
  b->compute = mean[CT_TIME_COMPUTE] + mean[CT_TIME_UPDATE];
  b->other = mean[CT_TIME_DATA] + mean[CT_TIME_SAVE] + mean[CT_TIME_OTHER];
  b->comm_exposed = b->breakdown.step_s - b->compute - b->other;
  b->rate = (double)batch / b->breakdown.step_s;
  b->sent = most;
  b->sent_mean = sum / s->topo->size;
  b->peak = ct_mem_peak_rss();
  b->activations = ct_trainer_memory(s->trainer)->bytes[CT_MEMORY_ACTIVATIONS];
  if (s->be->host_memory) describe_pages(b->pages, sizeof b->pages);
  b->arenas = ct_memory_total(ct_trainer_memory(s->trainer));
out:
  return rc;
}

/* Collective over topo.  Measures one mode, from the configuration to the result.  With --ops, adds
 * the ops as keys of \a json, or as text to \a ops. */
static int step_measure(const ct_args_t *a, const ct_topo_t *topo, ct_bench_t *b, json_t *json,
                        ct_str_t *ops)
{
  int rc = CT_OK;
  int64_t steps, warmup;
  ct_sampler_t order;
  ct_setup_t s = {.topo = topo};
  ct_steps_t made = {0};
  times_t t = {0};
  CT_TRY(ct_args_int(a, "steps", 20, 1, 1000000, &steps));
  CT_TRY(ct_args_int(a, "warmup", 3, 0, 1000000, &warmup));
  CT_TRY(ct_setup_config(&s, a->rest[1], a));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 1, 0));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_setup_trainer(&s, 1));
  CT_TRY(ct_setup_order(&s, &order));
  CT_TRY_ALL(topo, ct_steps_open(s.trainer, &s.data, &order, 0, 0, 0, &made));
  CT_TRY_ALL(topo, ct_steps_keep(&made, ct_args_get(a, "copy") != NULL));
  made.lag = ct_trainer_lag(s.trainer);
  b->where = s.be->in_place           ? CT_BENCH_IN_PLACE
             : ct_args_get(a, "copy") ? CT_BENCH_COPIED
                                      : CT_BENCH_ON_DEVICE;
  CT_TRY(alloc_times(topo, &t, (int)steps));
  CT_TRY(run_steps(&s, &made, (int)warmup, &t));
  CT_TRY(judge(&s, &t, made.kept->global, b));
  if (ct_args_get(a, "ops"))
    CT_TRY_ALL(topo, topo->rank == 0 ? ct_bench_ops(&s, made.kept, b, json, ops) : CT_OK);
out:
  ct_mem_free(t.step);
  ct_breakdown_close(t.breakdown);
  ct_steps_close(&made);
  ct_setup_close(&s);
  return rc;
}

/* ---- modes ---- */

enum { MODES_MAX = 8, KEYS = 2 };

/* A mode is the configuration with other values of some keys. */
typedef struct variety {
  const char *name;
  int alone; /* 1: rank 0 works alone while the others wait */
  const char *set[KEYS];
} variety_t;

static const variety_t varieties[] = {{"single", 1, {"parallel.mode=single", "parallel.zero=0"}},
                                      {"ddp", 0, {"parallel.mode=ddp", "parallel.zero=0"}},
                                      {"dp", 0, {"parallel.mode=dp", "parallel.zero=0"}},
                                      {"zero", 0, {"parallel.mode=ddp", "parallel.zero=1"}}};
enum { VARIETIES = sizeof varieties / sizeof *varieties };

/* Parses a list of modes such as "ddp,dp". */
static int read_modes(const char *text, const variety_t *out[], int *n)
{
  int rc = CT_OK;
  for (*n = 0; *text; text += strcspn(text, ","), text += *text == ',') {
    size_t len = strcspn(text, ",");
    const variety_t *found = NULL;
    for (int i = 0; i < VARIETIES; i++)
      if (strlen(varieties[i].name) == len && memcmp(varieties[i].name, text, len) == 0)
        found = &varieties[i];
    if (!found)
      CT_FAIL(CT_ERR_USAGE, "bench: unknown mode '%.*s'; there are single, ddp, dp and zero",
              (int)len, text);
    if (*n == MODES_MAX) CT_FAIL(CT_ERR_USAGE, "bench: more than %d modes", MODES_MAX);
    out[(*n)++] = found;
  }
  if (*n == 0) CT_FAIL(CT_ERR_USAGE, "bench: --modes is empty");
out:
  return rc;
}

/* Measures rank 0 as the only rank of a job, with its share of the cores. */
static int measure_alone(const ct_args_t *a, const ct_topo_t *topo, ct_bench_t *b)
{
  ct_topo_t alone = *topo;
  alone.world = alone.node = MPI_COMM_NULL;
  alone.rank = alone.local_rank = alone.node_index = 0;
  alone.size = alone.local_size = alone.nodes = alone.equal_nodes = 1;
  return step_measure(a, &alone, b, NULL, NULL);
}

static int measure_mode(const ct_args_t *a, const ct_topo_t *topo, const variety_t *v,
                        ct_bench_t *b)
{
  int rc = CT_OK;
  ct_args_t with = *a;
  int fresh = ct_mem_peak_reset();
  with.set = ct_mem_array(a->sets + KEYS, sizeof *with.set, "arguments");
  CT_TRY_ALL(topo, with.set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < a->sets + KEYS; i++)
    with.set[i] = i < a->sets ? a->set[i] : v->set[i - a->sets];
  with.sets = a->sets + KEYS;
  if (v->alone)
    CT_TRY_ALL(topo, topo->rank == 0 ? measure_alone(&with, topo, b) : CT_OK);
  else
    CT_TRY(step_measure(&with, topo, b, NULL, NULL));
  b->mode = v->name;
  if (!fresh) b->peak = 0;
out:
  ct_mem_free(with.set);
  return rc;
}

static int step_print(const ct_bench_t *b, int n, json_t *json, const ct_str_t *ops)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  CT_TRY(json ? ct_bench_json(b, n, json, &out) : ct_bench_text(b, n, &out));
  CT_TRY(ct_app_print(out.data));
  if (ops->data) CT_TRY(ct_app_print(ops->data));
out:
  ct_str_clear(&out);
  return rc;
}

/* Collective.  Measures all modes and prints the results. */
static int bench_step(const ct_args_t *a, const ct_topo_t *topo)
{
  int rc = CT_OK, n = 1;
  const char *text = ct_args_get(a, "modes");
  const variety_t *mode[MODES_MAX];
  ct_bench_t b[MODES_MAX] = {{0}};
  ct_str_t ops = {0};
  json_t *json = ct_args_get(a, "json") ? json_object() : NULL;
  int roofline = ct_args_get(a, "roofline") != NULL;
  if (!roofline && ct_args_get(a, "gpu"))
    CT_FAIL(CT_ERR_USAGE, "bench: --gpu names the GPU model of --roofline, which is not given");
  if (ct_args_get(a, "cpu") && (!roofline || ct_args_get(a, "gpu")))
    CT_FAIL(CT_ERR_USAGE, "bench: --cpu gives the rates of --roofline, in place of --gpu");
  if (roofline && (text || ct_args_get(a, "ops") || ct_args_get(a, "steps")))
    CT_FAIL(CT_ERR_USAGE, "bench: --roofline runs nothing; it cannot be combined with --ops, "
                          "--modes or --steps");
  if (roofline) {
    CT_TRY_ALL(topo, topo->rank == 0 ? ct_bench_roofline(a, topo) : CT_OK);
    goto out;
  }
  if (text && ct_args_get(a, "ops"))
    CT_FAIL(CT_ERR_USAGE, "bench: --ops measures one mode; it cannot be combined with --modes");
  if (text) CT_TRY(read_modes(text, mode, &n));
  for (int i = 0; text && i < n; i++)
    CT_TRY(measure_mode(a, topo, mode[i], &b[i]));
  if (!text) CT_TRY(step_measure(a, topo, b, json, &ops));
  CT_TRY_ALL(topo, topo->rank == 0 ? step_print(b, n, json, &ops) : CT_OK);
out:
  json_decref(json);
  ct_str_clear(&ops);
  return rc;
}

int ct_cmd_bench(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  const char *what = a->rest[0];
  if (strcmp(what, "comm") == 0 && a->rests == 1) return ct_cmd_bench_comm(a, topo, status);
  if (strcmp(what, "comm") == 0)
    CT_FAIL(CT_ERR_USAGE, "bench: 'comm' takes no configuration file, only --set");
  int io = strcmp(what, "io") == 0, predict = strcmp(what, "predict") == 0;
  int lr = strcmp(what, "lr") == 0;
  if (!io && !predict && !lr && strcmp(what, "step") != 0)
    CT_FAIL(CT_ERR_USAGE,
            "bench: cannot measure '%s'; there are 'step', 'io', 'predict', 'lr' and 'comm'", what);
  if (a->rests == 1) CT_FAIL(CT_ERR_USAGE, "bench: '%s' takes one more argument: CONFIG", what);
  if (io) return ct_cmd_bench_io(a, topo, status);
  if (lr) return ct_cmd_bench_lr(a, topo, status);
  if (predict) return ct_cmd_bench_predict(a, topo, status);
  CT_TRY(bench_step(a, topo));
out:
  return rc;
}
