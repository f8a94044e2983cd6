/* `quantize`: converts a checkpoint to an int8 model.  Folds batchnorms, calibrates activation
 * ranges on training batches, quantizes the weights, and measures the change in accuracy on
 * data.val. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "setup/ct_model_file.h"
#include "bench/ct_forward_timing.h"
#include "setup/ct_quantized_open.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "quant/ct_calibrate.h"
#include "eval/ct_eval.h"
#include "quant/ct_quant_file.h"

/* Scores of the model before or after quantization. */
typedef struct scores {
  ct_eval_result_t e;
  double samples_per_s; /* forward passes only, with folded batchnorms */
  int64_t bytes;
} scores_t;

typedef struct quantizing {
  const ct_args_t *a;
  ct_setup_t s;
  float **plain; /* owned; parameters of the original model */
  int params;
  ct_range_method_t method;
  double percent;
  int64_t batches, samples; /* calibration batches, and samples in them */
  char how[96];             /* calibration settings as text, for the file */
  scores_t before, after;
} quantizing_t;

static const char *const methods[] = {"minmax", "percentile", "entropy"};

static int read_method(quantizing_t *z, const char *word)
{
  int rc = CT_OK;
  for (int m = 0; m < 3; m++) {
    z->method = (ct_range_method_t)m;
    if (strcmp(word, methods[m]) == 0) return CT_OK;
  }
  CT_FAIL(CT_ERR_USAGE, "quantize: --method is '%s', expected one of %s", word, CT_RANGE_METHODS);
out:
  return rc;
}

static int read_args(quantizing_t *z)
{
  int rc = CT_OK;
  const ct_args_t *a = z->a;
  const char *method = ct_args_get(a, "method"), *percent = ct_args_get(a, "percent");
  z->percent = 99.99;
  if (!ct_args_get(a, "output")) CT_FAIL(CT_ERR_USAGE, "quantize: --output FILE.h5 is missing");
  CT_TRY(ct_args_int(a, "batches", 8, 1, 1 << 30, &z->batches));
  CT_TRY(read_method(z, method ? method : "percentile"));
  if (percent &&
      (ct_text_double(percent, &z->percent) != CT_OK || !(z->percent > 50 && z->percent <= 100)))
    CT_FAIL(CT_ERR_USAGE, "quantize: --percent is '%s', expected a number above 50, up to 100",
            percent);
out:
  return rc;
}

static int evaluate(quantizing_t *z, scores_t *out)
{
  int rc = CT_OK;
  const ct_config_t *c = &z->s.cfg;
  int64_t never;
  CT_TRY(ct_trainer_prepare(z->s.trainer, z->s.val.info.samples, c->data.eval_batch, 0));
  CT_TRY(ct_evaluate(z->s.trainer, &z->s.val, c->data.eval_batch, (int)c->data.workers, NULL, NULL,
                     &never, &out->e));
out:
  return rc;
}

static void drop_trainer(ct_setup_t *s)
{
  ct_trainer_destroy(s->trainer);
  s->trainer = NULL;
  ct_mem_free(s->class_weight);
  s->class_weight = NULL;
}

/* Measures the speed of the folded model, in float32 or int8, on the same batches. */
static int time_passes(quantizing_t *z, ct_quantized_as_t as, scores_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_quantized_trainer(&z->s, as, 1));
  CT_TRY(ct_passes_rate(&z->s, &out->samples_per_s));
  drop_trainer(&z->s);
out:
  return rc;
}

/* ---- the float32 model ---- */

static int take_weights(quantizing_t *z)
{
  int rc = CT_OK;
  const ct_graph_t *g = z->s.graph;
  z->params = g->params;
  z->plain = ct_mem_array(g->params + 1, sizeof *z->plain, "weights");
  CT_TRY(z->plain ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++) {
    z->plain[i] = ct_mem_array(g->param[i].count, sizeof **z->plain, "weights");
    CT_TRY(z->plain[i] ? CT_OK : CT_ERR_NOMEM);
    CT_TRY(ct_trainer_get(z->s.trainer, i, z->plain[i]));
    if (!ct_observed_is_range(g, i)) z->before.bytes += g->param[i].count * (int64_t)sizeof(float);
  }
out:
  return rc;
}

static int peek_trained(quantizing_t *z, const char *key, ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_setup_t *s = &z->s;
  CT_TRY(ct_model_trainer(s, key, w));
  if (s->quantized) CT_FAIL(CT_ERR_USAGE, "quantize: that checkpoint is quantized already");
  CT_TRY(evaluate(z, &z->before));
  CT_TRY_ALL(s->topo, take_weights(z));
  drop_trainer(s);
out:
  return rc;
}

/* ---- quantization ---- */

/* Opens the training data with the transforms of evaluation, without augmentation. */
static int open_calibration(quantizing_t *z, ct_dataset_t *out)
{
  int rc = CT_OK;
  ct_setup_t plain = z->s;
  plain.cfg.data.val = z->s.cfg.data.train;
  plain.val = (ct_dataset_t){0};
  rc = ct_setup_data(&plain, 0, 1);
  *out = plain.val;
  return rc;
}

static int calibrate(quantizing_t *z)
{
  int rc = CT_OK;
  ct_setup_t *s = &z->s;
  ct_dataset_t data = {0};
  const ct_config_t *c = &s->cfg;
  CT_TRY(ct_quantized_trainer(s, CT_QUANTIZED_OBSERVED, 0));
  CT_TRY(open_calibration(z, &data));
  ct_calibration_t how = {.data = &data,
                          .batches = z->batches,
                          .batch = c->data.eval_batch,
                          .seed = (uint64_t)c->run.seed,
                          .workers = (int)c->data.workers,
                          .method = z->method,
                          .percent = z->percent};
  CT_TRY(ct_calibrate(s->trainer, z->s.quantized->observed.graph, &how, &z->samples));
  for (int i = 0; i < z->s.quantized->observed.graph->params; i++)
    if (ct_observed_is_range(z->s.quantized->observed.graph, i))
      CT_TRY_ALL(s->topo, ct_trainer_get(s->trainer, i, z->s.quantized->value[i]));
  drop_trainer(s);
out:
  ct_dataset_close(&data);
  return rc;
}

static int quantize_describe(quantizing_t *z)
{
  char *to = z->how;
  size_t cap = sizeof z->how;
  if (z->s.quantized->dynamic) return ct_text_format(to, cap, "dynamic");
  if (z->s.whole) return ct_text_format(to, cap, "static, ranges of training (train.qat)");
  if (z->method == CT_RANGE_PERCENTILE)
    return ct_text_format(to, cap, "static, percentile %g of %" PRId64 " samples", z->percent,
                          z->samples);
  return ct_text_format(to, cap, "static, %s of %" PRId64 " samples", methods[z->method],
                        z->samples);
}

/* Rejects a device without int8 ops, which would run the int8 model in float32, before anything is
 * measured on it. */
static int check_device(const ct_setup_t *s)
{
  int rc = CT_OK;
  char why[128];
  ct_op_desc_t d;
  const ct_shape_t x = ct_shape(2, 1, 64);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &x);
  d.q.dynamic = 1;
  if (!s->be->op->supports(s->dev, &d, why))
    CT_FAIL(CT_ERR_UNSUP, "quantize: device %s cannot measure an int8 model: %s; set device: %s",
            s->be->name, why, strcmp(s->be->name, "cpu") == 0 ? "ref" : "cpu");
out:
  return rc;
}

/* Calibrates the folded float32 model, then quantizes the weights. */
static int make_int8(quantizing_t *z)
{
  int rc = CT_OK;
  ct_setup_t *s = &z->s;
  CT_TRY_ALL(s->topo, ct_quantized_add(s));
  CT_TRY_ALL(s->topo, ct_quantized_take(s->quantized, s->graph, z->plain));
  CT_TRY(time_passes(z, CT_QUANTIZED_FOLDED, &z->before));
  s->quantized->dynamic = ct_args_get(z->a, "dynamic") != NULL;
  if (!s->quantized->dynamic && !s->whole) CT_TRY(calibrate(z));
  CT_TRY_ALL(s->topo, ct_quantized_round(s->quantized));
  CT_TRY(ct_quantized_trainer(s, CT_QUANTIZED_INT8, 0));
  CT_TRY(evaluate(z, &z->after));
  drop_trainer(s);
  CT_TRY(time_passes(z, CT_QUANTIZED_INT8, &z->after));
  CT_TRY_ALL(s->topo, quantize_describe(z));
out:
  return rc;
}

/* ---- output ---- */

static int write_file(quantizing_t *z)
{
  int rc = CT_OK;
  const char *path = ct_args_get(z->a, "output");
  ct_str_t config = {0};
  struct stat st;
  CT_TRY(ct_config_dump(&z->s.cfg, &config));
  CT_TRY(ct_quant_file_write(ct_builtin_stores[0], path, z->s.quantized->observed.graph,
                             (const float *const *)z->s.quantized->value, config.data, z->how));
  if (stat(path, &st) == 0) z->after.bytes = st.st_size;
out:
  ct_str_clear(&config);
  return rc;
}

static json_t *side_json(const scores_t *s)
{
  return json_pack("{s:I, s:f, s:f, s:f, s:f}", "bytes", (json_int_t)s->bytes, "loss", s->e.loss,
                   "top1", s->e.top1, "top5", s->e.top5, "samples_per_s", s->samples_per_s);
}

static int report_json(const quantizing_t *z, ct_str_t *out)
{
  json_t *o =
      json_pack("{s:s, s:I, s:o, s:o}", "how", z->how, "samples", (json_int_t)z->before.e.samples,
                "before", side_json(&z->before), "int8", side_json(&z->after));
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

static int report_text(const quantizing_t *z, ct_str_t *out)
{
  int rc = CT_OK;
  const scores_t *b = &z->before, *n = &z->after;
  CT_TRY(ct_str_add(out, "%s\n\n%-14s %12s %12s %12s\n", z->how, "", "before", "int8", "change"));
  CT_TRY(ct_str_add(out, "%-14s %12" PRId64 " %12" PRId64 " %11.3fx\n", "bytes", b->bytes, n->bytes,
                    (double)n->bytes / (double)b->bytes));
  CT_TRY(ct_str_add(out, "%-14s %12.5f %12.5f %+12.5f\n", "loss", b->e.loss, n->e.loss,
                    n->e.loss - b->e.loss));
  if (!b->e.regression) {
    CT_TRY(ct_str_add(out, "%-14s %11.2f%% %11.2f%% %+11.2f%%\n", "top-1", 100 * b->e.top1,
                      100 * n->e.top1, 100 * (n->e.top1 - b->e.top1)));
    CT_TRY(ct_str_add(out, "%-14s %11.2f%% %11.2f%% %+11.2f%%\n", "top-5", 100 * b->e.top5,
                      100 * n->e.top5, 100 * (n->e.top5 - b->e.top5)));
  }
  CT_TRY(ct_str_add(out, "%-14s %12.0f %12.0f %11.2fx\n", "samples/s", b->samples_per_s,
                    n->samples_per_s, n->samples_per_s / b->samples_per_s));
out:
  return rc;
}

/* Rank 0.  Writes the file and prints the report. */
static int quantize_finish(quantizing_t *z)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(write_file(z));
  CT_TRY(ct_args_get(z->a, "json") ? report_json(z, &text) : report_text(z, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

static void quantize_clear(quantizing_t *z)
{
  ct_setup_close(&z->s);
  for (int i = 0; z->plain && i < z->params; i++)
    ct_mem_free(z->plain[i]);
  ct_mem_free(z->plain);
}

int ct_cmd_quantize(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  quantizing_t z = {.a = a, .s = {.topo = topo, .without_gradients = 1}};
  ct_setup_t *s = &z.s;
  ct_weights_file_t w = {0};
  (void)status;
  CT_TRY(read_args(&z));
  const ct_model_ask_t ask = {.what = a->rest[0],
                              .checkpoint = ct_args_get(a, "checkpoint"),
                              .key = ct_args_get(a, "key"),
                              .nothing = "accuracy cannot be measured"};
  CT_TRY(ct_model_config(s, a, &ask, &w));
  CT_TRY(ct_setup_device(s));
  CT_TRY(check_device(s));
  CT_TRY(ct_setup_data(s, 0, 1));
  CT_TRY(ct_setup_model(s));
  CT_TRY(peek_trained(&z, ask.key, &w));
  CT_TRY(make_int8(&z));
  CT_TRY_ALL(topo, topo->rank == 0 ? quantize_finish(&z) : CT_OK);
out:
  quantize_clear(&z);
  ct_weights_close(&w);
  return rc;
}
