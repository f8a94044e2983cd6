/* Memory of the scales and zero points of a quantized model. */
#include "model/ct_quant.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct_quant_make(const ct_graph_t *g, ct_quant_t *out)
{
  int rc = CT_OK;
  *out = (ct_quant_t){.layers = g->layers};
  out->out = ct_mem_array(g->layers, sizeof *out->out, "int8 numbers");
  out->dynamic = ct_mem_array(g->layers, sizeof *out->dynamic, "int8 numbers");
  CT_TRY(out->out && out->dynamic ? CT_OK : CT_ERR_NOMEM);
out:
  if (rc != CT_OK) ct_quant_clear(out);
  return rc;
}

void ct_quant_clear(ct_quant_t *q)
{
  ct_mem_free(q->out);
  ct_mem_free(q->dynamic);
  *q = (ct_quant_t){0};
}
