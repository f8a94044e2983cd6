/* `convert IN OUT.onnx`: exports a trained model.  The graph is built from the configuration; its
 * parameters are looked up in the weight file by name. */
#include <inttypes.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "commands/convert.h"
#include "commands/convert_int8.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "config.h"
#include "setup/ct_config.h"
#include "setup/ct_model_file.h"
#include "hdf5io/ct_h5.h"
#include "onnx/ct_onnx.h"
#include "weights/ct_init.h"

/** A model and the file of its weights. */
typedef struct model {
  const char *path;
  ct_weights_file_t file;
  char *text; /* owned; text of the configuration */
  ct_config_t cfg;
  ct_graph_t *graph;
  ct_match_t match; /* position of each weight in the file */
  int quantized;    /* 1: a quantized model, read by `eight` */
  ct_convert_int8_t int8;
} model_t;

/* ---- the configuration ---- */

static int take_config(model_t *m, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *given = ct_args_get(a, "config");
  char where[CT_PATH_MAX];
  size_t bytes;
  ct_str_t own = {0};
  if (given) CT_TRY(ct_file_read(given, &m->text, &bytes));
  if (!given) CT_TRY(ct_weights_config(&m->file, &own));
  if (!given) m->text = own.data;
  if (!m->text)
    CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration: name that of its model with --config FILE",
            m->path);
  ct_text_fit(where, sizeof where, given ? "%s" : "configuration in %s", given ? given : m->path);
  CT_TRY(ct_config_parse(&m->cfg, m->text, strlen(m->text), where, a->set, a->sets));
out:
  return rc;
}

static int make_graph(model_t *m, int cache)
{
  int rc = CT_OK;
  ct_shape_t input;
  ct_inputs_t extra;
  const ct_model_opts_t *o = &m->cfg.model;
  CT_TRY(ct_model_input(o, &input));
  if (!input.ndim)
    CT_FAIL(CT_ERR_USAGE,
            "%s: the shape of a sample is not set: give it, such as --set "
            "model.input=[3,224,224]",
            m->cfg.where);
  if (!o->classes)
    CT_FAIL(CT_ERR_USAGE, "%s: does not say how many classes there are: --set model.classes=10",
            m->cfg.where);
  CT_TRY(ct_model_inputs(o, &extra));
  if (cache) return ct_model_graph(&m->cfg, 1, &m->graph);
  CT_TRY(ct_graph_make(o, &input, &extra, o->classes, m->cfg.where, &m->graph));
out:
  return rc;
}

/* ---- the weights ---- */

/* Refuses a checkpoint of train.qat: only an int8 model can express its ranges in ONNX. */
static int refuse_ranges(const model_t *m)
{
  int rc = CT_OK;
  const char end[] = ".quant.range";
  for (int i = 0; i < m->file.ops->count(m->file.w); i++) {
    ct_tensor_t t;
    m->file.ops->tensor(m->file.w, i, &t);
    size_t n = strlen(t.name), tail = sizeof end - 1;
    if (n > tail && strcmp(t.name + n - tail, end) == 0)
      CT_FAIL(CT_ERR_USAGE,
              "%s: was trained with train.qat: quantize it first by `quantize CONFIG --checkpoint "
              "%s --output FILE.h5`, and convert that file",
              m->path, m->path);
  }
out:
  return rc;
}

/* Matches all weights strictly.  The `init` section of the configuration does not apply. */
static int find_weights(model_t *m, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *prefix = ct_args_get(a, "strip-prefix"), *key = ct_args_get(a, "key");
  ct_init_opts_t rules = {.from = (char *)(uintptr_t)m->path,
                          .key = (char *)(uintptr_t)(key ? key : ""),
                          .strict = 1,
                          .strip_prefix = (char *)(uintptr_t)(prefix ? prefix : "")};
  CT_TRY(ct_convert_rules(a, &rules.rename));
  CT_TRY(ct_match_reopen(ct_builtin_weights, m->graph, &rules, &m->file, &m->match));
  if (ct_match_judge(&m->match, &rules, m->path) != CT_OK) /* the error text speaks of training,
                                                              so it is replaced */
    CT_FAIL(CT_ERR_FORMAT,
            "%s: does not hold the model of %s: %d weights missing, %d of another shape, %d not in "
            "the model, as listed above; names are changed by %s%s",
            m->path, m->cfg.where, m->match.missing, m->match.misfits, m->match.unexpected,
            m->match.prefix[0] ? "--strip-prefix " : "--strip-prefix and --rename",
            m->match.prefix);
out:
  ct_convert_rules_clear(&rules.rename);
  return rc;
}

static int get(void *ctx, int param, float *out)
{
  const model_t *m = ctx;
  return ct_match_read(&m->file, m->match.from[param], &m->graph->param[param], out);
}

/* ---- the command ---- */

static int convert_onnx_tell(const model_t *m, const char *file)
{
  char line[CT_PATH_MAX + 2000], shape[80], outputs[1000] = "", extra[600] = ""; /* shapes without
                                                                                    the batch */
  for (int k = 0; k < m->graph->extra.n; k++) {
    size_t n = strlen(extra);
    ct_text_fit(extra + n, sizeof extra - n, ", input.%s N x %s", m->graph->extra.name[k],
                ct_shape_text(&m->graph->extra.x[k], shape, sizeof shape) + 2);
  }
  for (int k = 0; k < ct_graph_outputs(m->graph); k++) {
    size_t n = strlen(outputs);
    const ct_layer_t *l = &m->graph->layer[ct_graph_output(m->graph, k)];
    int several = ct_graph_outputs(m->graph) > 1;
    ct_shape_t out = l->out;
    if (!several && ct_shape_sample(&out) == out.dim[1]) out.ndim = 2;
    ct_text_fit(outputs + n, sizeof outputs - n, ", output%s%s N x %s", several ? "." : "",
                several ? l->name : "", ct_shape_text(&out, shape, sizeof shape) + 2);
  }
  ct_text_fit(line, sizeof line, "%s: ONNX, input N x %s%s%s, %" PRId64 " weights%s\n", file,
              ct_shape_text(&m->graph->input, shape, sizeof shape) + 2, extra, outputs,
              ct_graph_count(m->graph), m->quantized ? ", int8" : "");
  return ct_app_print(line);
}

static void close_model(model_t *m)
{
  ct_mem_free(m->text);
  ct_convert_int8_close(&m->int8);
  ct_match_clear(&m->match);
  ct_graph_free(m->graph);
  ct_config_clear(&m->cfg);
  ct_weights_close(&m->file);
}

static int write_onnx(model_t *m, const ct_args_t *a, const char *out)
{
  int rc = CT_OK;
  ct_onnx_opts_t o = {.version = PACKAGE_VERSION,
                      .config = m->text,
                      .cache = ct_args_get(a, "cache") != NULL,
                      .external = ct_args_get(a, "external-data") != NULL};
  if (m->quantized) {
    CT_TRY(ct_convert_int8_open(m->path, m->graph, &m->int8));
    o.quant = &m->int8.quant;
    CT_TRY(ct_onnx_write(m->int8.model.observed.fold.graph,
                         &(ct_onnx_source_t){ct_convert_int8_get, &m->int8}, &o, out));
  } else {
    CT_TRY(refuse_ranges(m));
    CT_TRY(find_weights(m, a));
    CT_TRY(ct_onnx_write(m->graph, &(ct_onnx_source_t){get, m}, &o, out));
  }
out:
  return rc;
}

int ct_convert_onnx(const char *in, const char *out, const ct_args_t *a)
{
  int rc = CT_OK;
  model_t m = {.path = in};
  CT_TRY(ct_weights_peek(ct_builtin_weights, in, ct_args_get(a, "key"), &m.file));
  if (m.file.ops == &ct_weights_hdf5) CT_TRY(ct_convert_int8_is(in, &m.quantized));
  CT_TRY(take_config(&m, a));
  CT_TRY(make_graph(&m, ct_args_get(a, "cache") != NULL));
  CT_TRY(write_onnx(&m, a, out));
  CT_TRY(convert_onnx_tell(&m, out));
out:
  close_model(&m);
  return rc;
}
