/** \file net_eight.h  A folded network whose numbers are in eight bits. */
#ifndef NET_EIGHT_H
#define NET_EIGHT_H
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "model/ct_fold.h"
#include "model/ct_quant.h"

/** A folded network with pairs of its own: ranges as numbers have them behind a batchnorm, for all
 * but the outputs; or with dynamic scales for whatever has weights. */
typedef struct net_eight {
  ct_fold_t fold;
  ct_quant_t quant;
  float **plain; /**< of the folded graph */
} net_eight_t;

static inline void net_eight_numbers(net_eight_t *n, int dynamic)
{
  const ct_graph_t *g = n->fold.graph;
  ct_quant_t *q = &n->quant;
  if (!dynamic) q->input = ct_quant_params_of(-4, 4);
  for (int i = 0; i < g->layers; i++) {
    ct_op_kind_t op = g->layer[i].ops->op;
    int in = g->layer[i].in[0];
    if (dynamic) {
      q->dynamic[i] = op == CT_OP_LINEAR || op == CT_OP_LSTM || op == CT_OP_ATTENTION;
    } else if (i < g->layers - 1) {
      q->out[i] = op == CT_OP_RELU || op == CT_OP_ACT ? ct_quant_params_of(0, 6)
                                                      : ct_quant_params_of(-5, 5);
      if (op == CT_OP_POOL || op == CT_OP_REORDER || op == CT_OP_SELECT)
        q->out[i] = in < 0 ? q->input : q->out[in];
    }
  }
}

static inline void net_eight_clear(net_eight_t *n)
{
  for (int i = 0; n->plain && i < n->fold.graph->params; i++)
    ct_mem_free(n->plain[i]);
  ct_mem_free(n->plain);
  ct_quant_clear(&n->quant);
  ct_fold_clear(&n->fold);
}

/** plain: of the whole graph.  Cleared also after a failure. */
static inline int net_eight_make(const ct_graph_t *g, float *const *plain, int dynamic,
                                 net_eight_t *out)
{
  int rc = CT_OK;
  *out = (net_eight_t){0};
  CT_TRY(ct_fold_make(g, &out->fold));
  const ct_graph_t *f = out->fold.graph;
  CT_TRY(ct_quant_make(f, &out->quant));
  net_eight_numbers(out, dynamic);
  out->plain = ct_mem_array(f->params, sizeof *out->plain, "test");
  for (int i = 0; i < f->params; i++) {
    out->plain[i] = ct_mem_array(f->param[i].count, sizeof(float), "test");
    ct_fold_param(&out->fold, i, (const float *const *)plain, out->plain[i]);
  }
out:
  return rc;
}

#endif
