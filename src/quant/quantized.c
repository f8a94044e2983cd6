/* Quantized models: their graphs, and the conversion of float32 weights. */
#include "quant/ct_quantized.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "quant/ct_quant_file.h"

int ct_quantized_make(const ct_graph_t *whole, ct_quantized_t *out)
{
  int rc = CT_OK;
  *out = (ct_quantized_t){0};
  CT_TRY(ct_fold_make(whole, &out->fold));
  CT_TRY(ct_observed_make(out->fold.graph, &out->observed));
  const ct_graph_t *g = out->observed.graph;
  out->value = ct_mem_array(g->params + 1, sizeof *out->value, "quantized weights");
  CT_TRY(out->value ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++) {
    out->value[i] = ct_mem_array(g->param[i].count, sizeof **out->value, "quantized weights");
    CT_TRY(out->value[i] ? CT_OK : CT_ERR_NOMEM);
  }
out:
  if (rc != CT_OK) ct_quantized_clear(out);
  return rc;
}

void ct_quantized_clear(ct_quantized_t *q)
{
  for (int i = 0; q->value && i < q->observed.graph->params; i++)
    ct_mem_free(q->value[i]);
  ct_mem_free(q->value);
  ct_quant_clear(&q->quant);
  ct_observed_clear(&q->observed);
  ct_fold_clear(&q->fold);
  *q = (ct_quantized_t){0};
}

void ct_quantized_free(ct_quantized_t *q)
{
  if (q) ct_quantized_clear(q);
  ct_mem_free(q);
}

int ct_quantized_take(ct_quantized_t *q, const ct_graph_t *from, float *const *plain)
{
  int rc = CT_OK;
  const ct_graph_t *g = q->observed.graph, *whole = q->fold.from;
  const float **of = ct_mem_array(whole->params + 1, sizeof *of, "quantized weights");
  CT_TRY(of ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < whole->params; i++) {
    int at = ct_graph_find_param(from, whole->param[i].name);
    if (at < 0) CT_FAIL(CT_ERR_FORMAT, "parameter %s is missing", whole->param[i].name);
    of[i] = plain[at];
  }
  for (int i = 0; i < g->params; i++) {
    int folded = ct_graph_find_param(q->fold.graph, g->param[i].name);
    int range = ct_graph_find_param(from, g->param[i].name);
    if (folded >= 0)
      ct_fold_param(&q->fold, folded, of, q->value[i]);
    else if (range >= 0)
      memcpy(q->value[i], plain[range], 2 * sizeof(float));
  }
out:
  ct_mem_free(of);
  return rc;
}

static int round_param(const ct_graph_t *g, int i, int64_t channels, float *w)
{
  int rc = CT_OK;
  int64_t count = g->param[i].count, each = count / channels;
  int8_t *bits = ct_mem_array(count, sizeof *bits, "int8 weights");
  float *scale = ct_mem_array(channels, sizeof *scale, "int8 weights");
  CT_TRY(bits && scale ? CT_OK : CT_ERR_NOMEM);
  ct_quant_weights(channels, each, w, bits, scale);
  ct_quant_weights_back(channels, each, bits, scale, w);
out:
  ct_mem_free(bits);
  ct_mem_free(scale);
  return rc;
}

int ct_quantized_round(ct_quantized_t *q)
{
  int rc = CT_OK;
  int64_t channels;
  const ct_graph_t *g = q->observed.graph;
  for (int i = 0; i < g->params; i++)
    if (ct_quant_file_has_bits(g, i, q->dynamic, &channels))
      CT_TRY(round_param(g, i, channels, q->value[i]));
out:
  return rc;
}

const ct_graph_t *ct_quantized_graph(const ct_quantized_t *q)
{
  return q->as == CT_QUANTIZED_OBSERVED ? q->observed.graph : q->observed.fold.graph;
}
