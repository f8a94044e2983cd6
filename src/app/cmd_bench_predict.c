/* `bench predict`: forward passes of the folded model on one batch that stays in memory. */
#include "app/bench.h"
#include "app/commands.h"
#include "app/predict.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"

typedef struct timing {
  int n;
  double *pass; /* owned: seconds of each timed pass, the slowest rank's */
  int64_t batch;
} timing_t;

/* The first batch of the data, kept by a feed that is not asked again. */
static int open_batch(const ct_setup_t *s, ct_feed_t **feed, timing_t *t, const ct_batch_t **out)
{
  int rc = CT_OK;
  ct_sampler_t in_order = {.samples = s->val.info.samples, .batch = s->cfg.data.eval_batch};
  ct_feed_opts_t o = ct_trainer_feed_opts(s->trainer, 0);
  o.one_epoch = 1;
  t->batch = ct_sampler_batch(&in_order, 0);
  t->pass = ct_mem_array(t->n, sizeof *t->pass, "timings");
  CT_TRY(t->pass ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_feed_open(&s->val, &in_order, &o, feed));
  CT_TRY(ct_feed_next(*feed, out));
out:
  return rc;
}

static int run(const ct_setup_t *s, const ct_batch_t *b, int warmup, timing_t *t)
{
  int rc = CT_OK;
  for (int i = -warmup; i < t->n; i++) {
    ct_loss_t none = {0};
    double begin = ct_clock();
    CT_TRY(ct_agree(s->topo, b->n ? ct_trainer_forward(s->trainer, b, &none) : CT_OK));
    double seconds = ct_clock() - begin;
    CT_TRY(ct_agree_doubles(s->topo, &seconds, 1, 1));
    if (i >= 0) t->pass[i] = seconds;
  }
out:
  return rc;
}

static int as_json(const ct_setup_t *s, const timing_t *t, ct_str_t *out)
{
  double median = ct_clock_median(t->pass, t->n);
  const ct_memory_t *m = ct_trainer_memory(s->trainer);
  json_t *o = json_pack(
      "{s:i, s:i, s:I, s:i, s:f, s:f, s:f, s:f, s:I, s:I}", "ranks", s->topo->size, "threads",
      ct_setup_threads(&s->cfg, s->topo->threads), "batch", (json_int_t)t->batch, "passes", t->n,
      "pass_s", median, "pass_s_min", t->pass[0], "pass_s_max", t->pass[t->n - 1], "samples_per_s",
      (double)t->batch / median, "activation_bytes", (json_int_t)m->bytes[CT_MEMORY_ACTIVATIONS],
      "arena_bytes", (json_int_t)ct_memory_total(m));
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

static int as_text(const ct_setup_t *s, const timing_t *t, ct_str_t *out)
{
  char activations[32], arenas[32];
  double median = ct_clock_median(t->pass, t->n);
  int threads = ct_setup_threads(&s->cfg, s->topo->threads);
  const ct_memory_t *m = ct_trainer_memory(s->trainer);
  return ct_str_add(
      out,
      "%d rank%s x %d thread%s, global batch %lld, %d passes\n"
      "  pass            %.3f ms (median; min %.3f, max %.3f)\n"
      "  samples/s       %.1f\n"
      "  memory          %s of activations, %s of arenas, on rank 0\n",
      s->topo->size, s->topo->size == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
      (long long)t->batch, t->n, 1e3 * median, 1e3 * t->pass[0], 1e3 * t->pass[t->n - 1],
      (double)t->batch / median,
      ct_text_bytes((double)m->bytes[CT_MEMORY_ACTIVATIONS], activations, sizeof activations),
      ct_text_bytes((double)ct_memory_total(m), arenas, sizeof arenas));
}

static int print(const ct_args_t *a, ct_setup_t *s, const ct_batch_t *b, const timing_t *t)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  CT_TRY(ct_args_get(a, "json") ? as_json(s, t, &out) : as_text(s, t, &out));
  if (ct_args_get(a, "ops")) CT_TRY(ct_bench_ops(s, b, ct_args_get(a, "json") != NULL, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

int ct_cmd_bench_predict(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t passes, warmup;
  char *made_up = (char *)(uintptr_t) "synthetic";
  const ct_opt_texts_t input = {&made_up, 1};
  ct_setup_t s = {.topo = topo};
  ct_weights_file_t w = {0};
  ct_feed_t *feed = NULL;
  const ct_batch_t *batch;
  timing_t t = {0};
  (void)status;
  CT_TRY(ct_args_int(a, "steps", 20, 1, 1000000, &passes));
  CT_TRY(ct_args_int(a, "warmup", 3, 0, 1000000, &warmup));
  t.n = (int)passes;
  CT_TRY(ct_predict_config(&s, a, a->rest[1], "", &input, &w));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_predict_trainer(&s, topo->rank == 0 && w.ops ? &w : NULL));
  CT_TRY_ALL(topo, open_batch(&s, &feed, &t, &batch));
  CT_TRY(run(&s, batch, (int)warmup, &t));
  CT_TRY_ALL(topo, topo->rank == 0 ? print(a, &s, batch, &t) : CT_OK);
out:
  ct_mem_free(t.pass);
  ct_feed_close(feed);
  ct_weights_close(&w);
  ct_setup_close(&s);
  return rc;
}
