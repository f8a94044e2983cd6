/* `bench predict`: times forward passes of the folded model on one batch that stays in memory. */
#include "bench/step_output.h"
#include "bench/ct_bench.h"
#include "bench/ct_forward_timing.h"
#include "setup/ct_model_file.h"
#include "setup/ct_predictor.h"
#include "base/ct_err.h"
#include "base/ct_json.h"

static json_t *as_object(const ct_setup_t *s, const ct_passes_t *t)
{
  const ct_memory_t *m = ct_trainer_memory(s->trainer);
  return json_pack(
      "{s:i, s:i, s:I, s:i, s:f, s:f, s:f, s:f, s:I, s:I}", "ranks", s->topo->size, "threads",
      ct_setup_threads(&s->cfg, s->topo->threads), "batch", (json_int_t)t->batch, "passes", t->n,
      "pass_s", t->median, "pass_s_min", t->pass[0], "pass_s_max", t->pass[t->n - 1],
      "samples_per_s", (double)t->batch / t->median, "activation_bytes",
      (json_int_t)m->bytes[CT_MEMORY_ACTIVATIONS], "arena_bytes", (json_int_t)ct_memory_total(m));
}

static int as_text(const ct_setup_t *s, const ct_passes_t *t, ct_str_t *out)
{
  char activations[32], arenas[32];
  int threads = ct_setup_threads(&s->cfg, s->topo->threads);
  const ct_memory_t *m = ct_trainer_memory(s->trainer);
  return ct_str_add(
      out,
      "%d rank%s x %d thread%s, global batch %lld, %d passes\n"
      "  pass            %.3f ms (median; min %.3f, max %.3f)\n"
      "  samples/s       %.1f\n"
      "  memory          %s of activations, %s of arenas, on rank 0\n",
      s->topo->size, s->topo->size == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
      (long long)t->batch, t->n, 1e3 * t->median, 1e3 * t->pass[0], 1e3 * t->pass[t->n - 1],
      (double)t->batch / t->median,
      ct_text_bytes((double)m->bytes[CT_MEMORY_ACTIVATIONS], activations, sizeof activations),
      ct_text_bytes((double)ct_memory_total(m), arenas, sizeof arenas));
}

static int predict_print(const ct_args_t *a, ct_setup_t *s, const ct_batch_t *b,
                         const ct_passes_t *t)
{
  int rc = CT_OK, is_json = ct_args_get(a, "json") != NULL;
  json_t *o = is_json ? as_object(s, t) : NULL;
  ct_str_t out = {0};
  if (!is_json) CT_TRY(as_text(s, t, &out));
  if (ct_args_get(a, "ops")) CT_TRY(ct_bench_ops(s, b, NULL, o, &out));
  if (is_json) CT_TRY(ct_json_add(o, &out));
  CT_TRY(ct_app_print(out.data));
out:
  json_decref(o);
  ct_str_clear(&out);
  return rc;
}

int ct_cmd_bench_predict(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t passes, warmup;
  char *made_up = (char *)(uintptr_t) "synthetic";
  const ct_opt_texts_t input = {&made_up, 1};
  ct_setup_t s = {.topo = topo, .without_gradients = 1};
  ct_weights_file_t w = {0};
  ct_feed_t *feed = NULL;
  const ct_batch_t *batch;
  ct_passes_t t = {0};
  (void)status;
  CT_TRY(ct_args_int(a, "steps", 20, 1, 1000000, &passes));
  CT_TRY(ct_args_int(a, "warmup", 3, 0, 1000000, &warmup));
  const ct_model_ask_t ask = {.what = a->rest[1],
                              .checkpoint = "",
                              .input = &input,
                              .nothing = "there is nothing to predict"};
  CT_TRY(ct_model_config(&s, a, &ask, &w));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_predict_trainer(&s, NULL, topo->rank == 0 && w.ops ? &w : NULL));
  CT_TRY_ALL(topo, ct_passes_batch(&s, &feed, &batch));
  CT_TRY(ct_passes_run(&s, batch, (int)warmup, (int)passes, &t));
  CT_TRY_ALL(topo, topo->rank == 0 ? predict_print(a, &s, batch, &t) : CT_OK);
out:
  ct_passes_clear(&t);
  ct_feed_close(feed);
  ct_weights_close(&w);
  ct_setup_close(&s);
  return rc;
}
