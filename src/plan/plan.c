#include "plan/ct_plan.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <string.h>

#define ALIGN 64

ct_plan_t *ct__plan_new(const ct_graph_t *g, const ct_plan_opts_t *o)
{
  ct_plan_t *p = ct_mem_alloc(sizeof *p, "plan");
  if (!p) return NULL;
  p->graph = g;
  p->o = *o;
  p->layer_op = ct_mem_array(g->layers, sizeof *p->layer_op, "plan");
  ct_shape_t in = g->input;
  in.dim[0] = o->n;
  p->input = ct__plan_value(p, &in, 0);
  if (!p->layer_op || p->input < 0) {
    ct_plan_free(p);
    return NULL;
  }
  p->value[p->input].external = 1;
  return p;
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

int ct_plan_root(const ct_plan_t *p, int v)
{
  while (p->value[v].same_as >= 0)
    v = p->value[v].same_as;
  return v;
}

int ct_plan_make(const ct_graph_t *g, const ct_backend_t *be, ct_dev_t *dev,
                 const ct_plan_opts_t *o, const ct_plan_t *like, ct_plan_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_plan_t *p = ct__plan_new(g, o);
  if (!p) return CT_ERR_NOMEM;
  p->be = be;
  p->dev = dev;
  CT_TRY(ct__plan_lower(p));
  if (o->training && !p->value[p->logits].grad)
    CT_FAIL(CT_ERR_USAGE, "the model has no parameters that could be trained");
  CT_TRY(ct__plan_prepare(p, like));
  CT_TRY(ct__plan_schedule(p));
  CT_TRY(ct__plan_prepare_helpers(p));
  CT_TRY(ct__plan_place(p));
  *out = p;
  p = NULL;
out:
  ct_plan_free(p);
  return rc;
}

void ct_plan_free(ct_plan_t *p)
{
  if (!p) return;
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].op) p->be->op->release(p->op[i].op);
  ct_mem_free(p->op);
  ct_mem_free(p->value);
  ct_mem_free(p->work);
  ct_mem_free(p->layer_op);
  ct_mem_free(p);
}

/* ---- arenas ---- */

static size_t rounded(size_t bytes)
{
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void map_param(const ct_plan_t *p, ct_arena_map_t *m, int i)
{
  const ct_param_t *par = &p->graph->param[i];
  const ct_plan_op_t *op = &p->op[p->layer_op[par->layer]];
  if (par->spec.buffer) {
    m->bytes[i] = (size_t)par->count * sizeof(float);
    m->offset[i] = m->buffer_bytes;
    m->buffer_bytes += rounded(m->bytes[i]);
  } else {
    m->bytes[i] = op->info.param_bytes[par->slot];
    m->offset[i] = m->weight_bytes;
    m->weight_bytes += rounded(m->bytes[i]);
    m->order[m->trained++] = i;
    m->layout = ct_hash_int((int64_t)op->info.param_layout, m->layout);
  }
  m->layout = ct_hash_int((int64_t)m->bytes[i], m->layout);
}

int ct_arena_map_make(const ct_plan_t *p, ct_arena_map_t *m)
{
  const ct_graph_t *g = p->graph;
  memset(m, 0, sizeof *m);
  m->params = g->params;
  m->offset = ct_mem_array(g->params + 1, sizeof *m->offset, "arena map");
  m->bytes = ct_mem_array(g->params + 1, sizeof *m->bytes, "arena map");
  m->order = ct_mem_array(g->params + 1, sizeof *m->order, "arena map");
  if (!m->offset || !m->bytes || !m->order) {
    ct_arena_map_clear(m);
    return CT_ERR_NOMEM;
  }
  /* Backward finishes the last op's gradients first. */
  for (int o = p->ops - 1; o >= 0; o--)
    for (int i = 0; i < g->params; i++)
      if (p->op[o].layer >= 0 && g->param[i].layer == p->op[o].layer) map_param(p, m, i);
  return CT_OK;
}

void ct_arena_map_clear(ct_arena_map_t *m)
{
  ct_mem_free(m->offset);
  ct_mem_free(m->bytes);
  ct_mem_free(m->order);
  memset(m, 0, sizeof *m);
}
