/* Models of every family and of every kind of layer, as ONNX files, with a batch of noise and what
 * the reference backend makes of it: for check_onnx.py.
 *
 *     onnx_make             lists the models: name, size of the batch, 1 or 2 if in eight bits
 *     onnx_make NAME DIR    writes DIR/NAME.onnx, DIR/NAME.in, DIR/NAME.out (float32); of one in
 *                           eight bits also DIR/NAME.h5, a quantized file */
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "hdf5io/ct_h5.h"
#include "model/ct_observe.h"
#include "onnx/ct_onnx.h"
#include "tests/python/onnx_models.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_eight.h"
#include "tests/unit/net_run.h"
#include "quant/ct_quant_file.h"

enum { CLASSES = 7, BATCH = 2 };

static int take(void *ctx, int param, float *out)
{
  const void *const *of = ctx;
  const ct_graph_t *g = of[0];
  float *const *plain = of[1];
  memcpy(out, plain[param], (size_t)g->param[param].count * sizeof *out);
  return CT_OK;
}

static int write_file(const char *dir, const char *name, const char *suffix, const float *data,
                      int64_t count)
{
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/%s.%s", dir, name, suffix);
  return ct_file_write(path, data, (size_t)count * sizeof *data);
}

static int write_onnx(const onnx_model_t *m, const ct_graph_t *g, float **plain,
                      const ct_quant_t *quant, const char *dir)
{
  char path[CT_PATH_MAX];
  const void *of[2] = {g, plain};
  ct_onnx_opts_t o = {
      .version = "test", .config = m->yaml, .quant = quant, .external = m->external};
  snprintf(path, sizeof path, "%s/%s.onnx", dir, m->name);
  return ct_onnx_write(g, &(ct_onnx_source_t){take, (void *)of}, &o, path);
}

/* The section `model` of a configuration. */
static int add_config(const onnx_model_t *m, ct_str_t *out)
{
  int rc = CT_OK, flow = m->yaml[0] == '{';
  CT_TRY(ct_str_add(out, "model: %s", flow ? "{" : "\n"));
  CT_TRY(ct_str_add(out, "  classes: %d%s  input: [%d", CLASSES, flow ? "," : "\n", m->dim[0]));
  for (int i = 1; i < m->dims; i++)
    CT_TRY(ct_str_add(out, ", %d", m->dim[i]));
  CT_TRY(ct_str_add(out, "]%s", flow ? ", " : "\n"));
  if (flow) return ct_str_add(out, "%s\n", m->yaml + 1);
  for (const char *line = m->yaml, *end; *line; line = *end ? end + 1 : end) {
    end = line + strcspn(line, "\n");
    CT_TRY(ct_str_add(out, "  %.*s\n", (int)(end - line), line));
  }
out:
  return rc;
}

/* Of numbers as they are behind a batchnorm, or a ReLU. */
static void set_range(const ct_graph_t *g, int place, float range[2])
{
  int before = g->layer[place].in[0];
  int clips = before >= 0 &&
              (g->layer[before].ops->op == CT_OP_RELU || g->layer[before].ops->op == CT_OP_ACT);
  range[0] = clips ? 0 : -5;
  range[1] = clips ? 6 : 5;
}

/* The same model as a quantized file, for `convert`. */
static int write_quantized(const onnx_model_t *m, const net_eight_t *n, const char *dir)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t config = {0};
  ct_observed_t o = {0};
  float **value = NULL;
  CT_TRY(add_config(m, &config));
  CT_TRY(ct_observed_make(n->fold.graph, &o));
  value = ct_mem_array(o.graph->params, sizeof *value, "test");
  for (int i = 0; i < o.graph->params; i++) {
    const ct_param_t *p = &o.graph->param[i];
    int whole = ct_graph_find_param(n->fold.graph, p->name);
    value[i] = ct_mem_array(p->count, sizeof **value, "test");
    if (whole >= 0) memcpy(value[i], n->plain[whole], (size_t)p->count * sizeof **value);
    if (whole < 0) set_range(o.graph, p->layer, value[i]);
  }
  snprintf(path, sizeof path, "%s/%s.h5", dir, m->name);
  CT_TRY(ct_quant_file_write(&ct_store_hdf5, path, o.graph, (const float *const *)value,
                             config.data, m->eight == 2 ? "dynamic" : "static"));
out:
  if (value) net_discard(o.graph, value);
  ct_observed_clear(&o);
  ct_str_clear(&config);
  return rc;
}

static int make_model(const onnx_model_t *m, const char *dir)
{
  int rc = CT_OK;
  float out[BATCH * CLASSES], *x = NULL, **plain = NULL;
  ct_graph_t *g = NULL;
  net_eight_t eight = {0};
  ct_shape_t input = ct_shape_dims(
      1 + m->dims, (const int64_t[CT_MAX_DIMS]){1, m->dim[0], m->dim[1], m->dim[2], m->dim[3]});
  CT_TRY(make_for(m->yaml, input, CLASSES, &g));
  plain = net_trained(g);
  x = net_noise(&g->input, BATCH);
  CT_TRY(net_outputs(g, plain, BATCH, x, out));
  if (m->eight) CT_TRY(net_eight_make(g, plain, m->eight == 2, &eight));
  CT_TRY(m->eight ? write_onnx(m, eight.fold.graph, eight.plain, &eight.quant, dir)
                  : write_onnx(m, g, plain, NULL, dir));
  if (m->eight) CT_TRY(write_quantized(m, &eight, dir));
  CT_TRY(write_file(dir, m->name, "in", x, BATCH * ct_shape_count(&g->input)));
  CT_TRY(write_file(dir, m->name, "out", out, BATCH * CLASSES));
out:
  net_eight_clear(&eight);
  ct_mem_free(x);
  if (plain) net_discard(g, plain);
  ct_graph_free(g);
  return rc;
}

int main(int argc, char **argv)
{
  int rc = CT_ERR_ARG, n = sizeof onnx_models / sizeof *onnx_models;
  for (int i = 0; argc == 1 && i < n; i++)
    printf("%s %d %d\n", onnx_models[i].name, BATCH, onnx_models[i].eight);
  for (int i = 0; argc == 3 && i < n; i++)
    if (strcmp(onnx_models[i].name, argv[1]) == 0) rc = make_model(&onnx_models[i], argv[2]);
  if (argc > 1 && rc != CT_OK) fprintf(stderr, "%s: %s\n", argv[1], ct_err_last()->text);
  return argc == 1 || rc == CT_OK ? 0 : 1;
}
