/* Reads a quantized checkpoint for ONNX export: the folded model with scales and zero points.  The
 * weights are dequantized float32 values, which quantize to the same int8 values again. */
#include "commands/convert_int8.h"

#include <string.h>

#include "setup/ct_builtin.h"
#include "base/ct_err.h"
#include "quant/ct_quant_file.h"

int ct_convert_int8_is(const char *path, int *is)
{
  int rc = CT_OK;
  ct_ckpt_found_t file = {0};
  CT_TRY(ct_ckpt_find(ct_builtin_stores, path, "", &file));
  *is = ct_quant_file_is(file.ops, file.store);
out:
  ct_ckpt_found_close(&file);
  return rc;
}

/* Marks all layers with int8 weights as dynamically quantized. */
static void all_dynamic(ct_convert_int8_t *e)
{
  const ct_graph_t *g = e->model.observed.fold.graph;
  int64_t channels;
  for (int i = 0; i < g->params; i++)
    if (ct_quant_file_has_bits(g, i, 1, &channels)) e->quant.dynamic[g->param[i].layer] = 1;
}

int ct_convert_int8_open(const char *path, const ct_graph_t *g, ct_convert_int8_t *out)
{
  int rc = CT_OK;
  ct_ckpt_found_t file = {0};
  ct_quantized_t *m = &out->model;
  CT_TRY(ct_quantized_make(g, m));
  CT_TRY(ct_ckpt_find(ct_builtin_stores, path, "", &file));
  CT_TRY(ct_quant_file_read(file.ops, file.store, m->observed.graph, m->value, &m->dynamic));
  CT_TRY(ct_observed_quant(&m->observed, (const float *const *)m->value, &out->quant));
  if (m->dynamic) all_dynamic(out);
out:
  ct_ckpt_found_close(&file);
  return rc;
}

int ct_convert_int8_get(void *int8, int param, float *out)
{
  const ct_quantized_t *m = &((ct_convert_int8_t *)int8)->model;
  const ct_param_t *p = &m->observed.fold.graph->param[param];
  int i = ct_graph_find_param(m->observed.graph, p->name);
  if (i < 0)
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "parameter %s is missing", p->name);
  memcpy(out, m->value[i], (size_t)p->count * sizeof *out);
  return CT_OK;
}

void ct_convert_int8_close(ct_convert_int8_t *e)
{
  ct_quant_clear(&e->quant);
  ct_quantized_clear(&e->model);
}
