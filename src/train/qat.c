/* train.qat: forward and backward passes use weights rounded to int8 steps, while the optimizer
 * updates the unrounded weights (straight-through estimator: Jacob et al., CVPR 2018). Since scales
 * are per output channel, they are the same with or without the following batchnorm folded in. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "backend/ct_fake_quant.h"
#include "model/ct_observe.h"

int ct__qat_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  int64_t most = 1;
  const ct_graph_t *g = t->env.graph;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_ROUNDED_WEIGHTS, &t->rounding.weight));
  if (!t->rounding.weight) return CT_OK;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].count > most) most = g->param[i].count;
  t->rounding.plain =
      ct_mem_array(most, sizeof *t->rounding.plain, "weights in their plain layout");
  CT_TRY(t->rounding.plain ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

void ct__qat_free(ct_trainer_t *t)
{
  ct_mem_free(t->rounding.plain);
}

/* Rounds in place. */
static void round_weights(int64_t channels, int64_t each, float *w)
{
  for (int64_t c = 0; c < channels; c++) {
    float *own = w + c * each, scale = ct_quant_weight_scale(each, own);
    const ct_quant_params_t qp = {scale, 0};
    for (int64_t i = 0; i < each; i++)
      own[i] = scale * ct_fake_quant_steps(&qp, own[i]);
  }
}

static int round_param(ct_trainer_t *t, int i, int64_t channels)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_plan_t *p = t->first.plan;
  const ct_param_t *par = &t->env.graph->param[i];
  ct_op_t *op = p->op[p->layer_op[par->layer]].op;
  size_t at = t->map.offset[i];
  CT_TRY(be->op->unpack(t->q, op, par->slot, t->weight + at, t->rounding.plain));
  round_weights(channels, par->count / channels, t->rounding.plain);
  CT_TRY(be->op->pack(t->q, op, par->slot, t->rounding.plain, t->rounding.weight + at));
out:
  return rc;
}

int ct__qat_round(ct_trainer_t *t)
{
  int rc = CT_OK;
  int64_t channels;
  if (!t->rounding.weight) return CT_OK;
  CT_TRY(t->env.be->mem->copy(t->q, t->rounding.weight, t->weight, t->map.weight_bytes));
  for (int i = 0; i < t->env.graph->params; i++)
    if (ct_quant_is_weight(t->env.graph, i, &channels)) CT_TRY(round_param(t, i, channels));
out:
  return rc;
}

char *ct__qat_weight(const ct_trainer_t *t)
{
  return t->rounding.weight ? t->rounding.weight : t->weight;
}
