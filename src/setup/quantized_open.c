/* Creates trainers for quantized models: with the observed graph for calibration, or with the
 * folded graph and its scales and zero points for int8 computation. */
#include "setup/ct_quantized_open.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "quant/ct_quant_file.h"

/* Broadcasts the calibrated ranges.  They decide which layers compute in int8, so all ranks need
 * them before plans are compiled. */
static int share_ranges(ct_setup_t *s)
{
  int rc = CT_OK;
  const ct_quantized_t *q = s->quantized;
  const ct_graph_t *g = q->observed.graph;
  for (int i = 0; i < g->params; i++) {
    double range[2] = {0, 0};
    if (!ct_observed_is_range(g, i)) continue;
    for (int k = 0; k < 2 && s->topo->rank == 0; k++)
      range[k] = q->value[i][k];
    CT_TRY(ct_agree_doubles(s->topo, range, 2, 0));
    for (int k = 0; k < 2; k++)
      q->value[i][k] = (float)range[k];
  }
out:
  return rc;
}

/* Sets scales and zero points of all layers.  The ops inside an LSTM do not have them, so LSTMs are
 * quantized dynamically. */
static int make_numbers(ct_quantized_t *q)
{
  int rc = CT_OK;
  const ct_graph_t *g = q->observed.fold.graph;
  ct_quant_clear(&q->quant);
  CT_TRY(ct_observed_quant(&q->observed, (const float *const *)q->value, &q->quant));
  for (int i = 0; i < g->layers; i++) {
    ct_op_kind_t kind = g->layer[i].ops->op;
    q->quant.dynamic[i] = kind == CT_OP_LSTM || (q->dynamic && kind == CT_OP_LINEAR);
  }
out:
  return rc;
}

static int set_values(ct_setup_t *s)
{
  int rc = CT_OK;
  const ct_quantized_t *q = s->quantized;
  const ct_graph_t *g = q->observed.graph, *to = ct_quantized_graph(q);
  for (int i = 0; i < g->params; i++) {
    int param = ct_graph_find_param(to, g->param[i].name);
    if (param >= 0) CT_TRY(ct_trainer_set(s->trainer, param, q->value[i]));
  }
out:
  return rc;
}

int ct_quantized_trainer(ct_setup_t *s, ct_quantized_as_t as, int logits_only)
{
  int rc = CT_OK;
  ct_quantized_t *q = s->quantized;
  q->as = as;
  q->logits_only = logits_only;
  s->step_opts.qat = 0; /* the weights are already rounded */
  s->step_opts.compute = CT_F32;
  CT_TRY(share_ranges(s));
  CT_TRY_ALL(s->topo, make_numbers(q));
  CT_TRY(ct_setup_trainer(s, 0));
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? set_values(s) : CT_OK);
  CT_TRY(ct_trainer_broadcast(s->trainer, 0));
out:
  return rc;
}

int ct_quantized_is(const ct_topo_t *topo, const ct_ckpt_found_t *checkpoint)
{
  int64_t found = checkpoint->store && ct_quant_file_is(checkpoint->ops, checkpoint->store);
  ct_agree_sum(topo, &found, 1);
  return found > 0;
}

int ct_quantized_open(ct_setup_t *s, const ct_ckpt_found_t *checkpoint)
{
  int rc = CT_OK;
  CT_TRY_ALL(s->topo, ct_quantized_add(s));
  ct_quantized_t *q = s->quantized;
  if (s->topo->rank == 0)
    rc = ct_quant_file_read(checkpoint->ops, checkpoint->store, q->observed.graph, q->value,
                            &q->dynamic);
  CT_TRY(ct_agree(s->topo, rc));
  int64_t dynamic = q->dynamic;
  ct_agree_sum(s->topo, &dynamic, 1); /* broadcast: the value is 0 on the other ranks */
  q->dynamic = dynamic > 0;
  CT_TRY(ct_quantized_trainer(s, CT_QUANTIZED_INT8, s->fold.graph != NULL));
out:
  return rc;
}

int ct_quantized_add(ct_setup_t *s)
{
  int rc = CT_OK;
  s->quantized = ct_mem_alloc(sizeof *s->quantized, "the quantized model");
  CT_TRY(s->quantized ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_quantized_make(s->whole ? s->whole : s->graph, s->quantized));
out:
  return rc;
}
