/* The tables of a plan (values and ops), and their release.  Compiler passes append to them and
 * refer by index, because the tables move as they grow. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

static int add_extra(ct_plan_t *p)
{
  for (int k = 0; k < p->graph->extra.n; k++) {
    ct_shape_t x = p->graph->extra.x[k];
    x.dim[0] = p->o.n;
    p->extra[k] = ct__plan_value(p, &x, 0);
    if (p->extra[k] < 0) return CT_ERR_NOMEM;
    p->value[p->extra[k]].external = 2 + k;
  }
  return CT_OK;
}

ct_plan_t *ct__plan_new(const ct_graph_t *g, const ct_plan_opts_t *o)
{
  ct_plan_t *p = ct_mem_alloc(sizeof *p, "plan");
  if (!p) return NULL;
  p->graph = g;
  p->o = *o;
  p->layer_op = ct_mem_array(g->layers, sizeof *p->layer_op, "plan");
  ct_shape_t in = g->input;
  in.dim[0] = o->n;
  if (o->bytes) in.dtype = CT_U8;
  if (o->bytes && o->channels_last) in.layout = CT_NHWC;
  p->input = ct__plan_value(p, &in, 0);
  if (!p->layer_op || p->input < 0 || add_extra(p) != CT_OK) {
    ct_plan_free(p);
    return NULL;
  }
  p->value[p->input].external = 1;
  return p;
}

ct_heads_t ct_plan_heads(const ct_plan_opts_t *o)
{
  if (o->heads.n) return o->heads;
  return (ct_heads_t){.n = 1, .of = {{.loss = o->loss, .weight = 1}}};
}

void ct__plan_note_outputs(ct_plan_t *p)
{
  for (int k = 0; k < CT_OUTPUTS; k++)
    p->output[k] = -1;
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_LOSS) p->output[p->op[i].output] = p->op[i].in[0];
  p->logits = -1;
  for (int k = CT_OUTPUTS - 1; k >= 0; k--)
    if (p->output[k] >= 0) p->logits = p->output[k];
}

int ct__plan_value(ct_plan_t *p, const ct_shape_t *shape, int grad)
{
  if (ct_mem_grow((void **)&p->value, &p->cap_values, p->values + 1, sizeof *p->value)) return -1;
  ct_value_t *v = &p->value[p->values];
  v->shape = *shape;
  v->grad = grad;
  v->bytes = shape->ndim ? ct_shape_bytes(shape) : 0;
  v->first = -1;
  v->last = -1;
  v->same_as = -1;
  return p->values++;
}

int ct__plan_op(ct_plan_t *p, const ct_plan_op_t *op)
{
  if (ct_mem_grow((void **)&p->op, &p->cap_ops, p->ops + 1, sizeof *p->op)) return -1;
  p->op[p->ops] = *op;
  return p->ops++;
}

int ct__plan_passes(const ct_plan_t *p, const ct_plan_op_t *op)
{
  int passes = CT_FWD;
  int inputs = ct_op_adds_second(&op->desc) ? 1 : CT_OP_INPUTS; /* it computes no gradient of x2 */
  if (!p->o.training) return passes;
  for (int k = 0; k < inputs; k++)
    if (op->in[k] >= 0 && p->value[op->in[k]].grad && !(ct_op_indices(&op->desc) >> k & 1))
      passes |= CT_BWD_DATA;
  if (op->trained) passes |= CT_BWD_PARAM;
  if (op->desc.kind == CT_OP_BNORM && op->desc.u.bnorm.sync) {
    passes |= CT_FWD_STATS;
    if (passes & CT_BWD_DATA)
      passes |= CT_BWD_STATS; /* only dx needs the sums of the other ranks */
  }
  return passes;
}

int ct_plan_late(const ct_plan_t *p, int param)
{
  for (int k = 0; k < p->lates; k++)
    if (p->late[k].param == param) return k;
  return -1;
}

int ct_plan_root(const ct_plan_t *p, int v)
{
  while (p->value[v].same_as >= 0)
    v = p->value[v].same_as;
  return v;
}

static void release_op(const ct_plan_t *p, const ct_plan_op_t *o)
{
  p->be->op->release(o->op);
  p->be->op->release(o->empty);
}

void ct_plan_free(ct_plan_t *p)
{
  if (!p) return;
  for (int i = 0; i < p->ops; i++)
    if (p->be) release_op(p, &p->op[i]);
  ct_mem_free(p->op);
  ct_mem_free(p->value);
  ct_mem_free(p->launch);
  ct_mem_free(p->layer_op);
  ct_mem_free(p->unlimited.launch);
  ct_mem_free(p->unlimited.dropped);
  ct_mem_free(p->unlimited.least);
  ct_mem_free(p);
}
