/* Convolution, activation and pooling become one op in slabs (CONV_POOL) where the convolution's
 * output is so large that it, or its gradient, would decide the memory of a step: the first layers
 * of volumes and of large images.  The choice depends on the shapes of a sample alone, so all plans
 * of a model make the same one, and no result depends on the batch. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Bytes of a slab of the convolution's output.  Larger ones repeat less of the halos' work. */
enum { SLAB_BYTES = 64 << 20 };

typedef struct slabs_of {
  ct_plan_t *p;
  int *readers, *maker; /* per value */
} slabs_of_t;

/* Returns the op that makes input 0 of op o if nothing else reads it, else NULL. */
static ct_plan_op_t *slabs_before(const slabs_of_t *s, const ct_plan_op_t *op, ct_op_kind_t kind)
{
  int v = op->in[0], m = v < 0 || s->readers[v] != 1 ? -1 : s->maker[v];
  return m >= 0 && s->p->op[m].desc.kind == kind ? &s->p->op[m] : NULL;
}

/* Returns the bytes of a sample of a tensor in float32. */
static double sample_bytes(const ct_shape_t *s)
{
  return (double)ct_shape_sample(s) * sizeof(float);
}

/* Returns the rows of y of a slab: equal parts, at least two. */
static int slab_rows(const ct_op_desc_t *conv, const ct_op_desc_t *pool)
{
  int64_t all = pool->y.dim[2];
  double row = sample_bytes(&conv->y) / (double)conv->y.dim[2] * pool->u.pool.stride[0];
  int64_t most = (int64_t)(SLAB_BYTES / row);
  if (most > (all + 1) / 2) most = (all + 1) / 2;
  if (most < 1) most = 1;
  int64_t slabs = (all + most - 1) / most;
  return (int)((all + slabs - 1) / slabs);
}

static int is_shared(const ct_graph_t *g, int layer)
{
  for (int k = 0; k < g->layer[layer].params; k++)
    if (g->param[g->layer[layer].param[k]].uses > 1) return 1;
  return 0;
}

/* Returns 1 if the backend has the op in float32 and in the type of mixed precision. */
static int slabs_supported(const ct_plan_t *p, const ct_plan_op_t *op)
{
  char why[128];
  ct_op_desc_t d = op->desc;
  d.passes = ct__plan_passes(p, op);
  if (!p->be->op->supports(p->dev, &d, why)) return 0;
  ct_op_desc_type(&d, p->o.compute);
  return p->be->op->supports(p->dev, &d, why);
}

/* Makes the op of a pooling and of what is before it.  Returns 0 if it does not apply. */
static int slabs_join(const slabs_of_t *s, const ct_plan_op_t *pool, const ct_plan_op_t *act,
                      const ct_plan_op_t *conv, ct_plan_op_t *out)
{
  const ct_plan_t *p = s->p;
  const ct_op_desc_t *c = &conv->desc;
  if (sample_bytes(&c->y) <= p->o.slab_mb * 0x1p20 || is_shared(p->graph, conv->layer)) return 0;
  if (pool->desc.u.pool.global || pool->desc.u.pool.adaptive) return 0; /* no windows to cut */
  if (c->u.conv.add || c->x.ndim < 4 || pool->desc.x.ndim != c->y.ndim) return 0;
  *out = *conv;
  out->out = pool->out;
  ct_op_desc_init(&out->desc, CT_OP_CONV_POOL, &c->x, &pool->desc.y);
  out->desc.training = c->training;
  ct_op_conv_pool_t *o = &out->desc.u.conv_pool;
  o->conv = c->u.conv;
  o->pool = pool->desc.u.pool;
  o->rows = slab_rows(c, &pool->desc);
  if (act) o->act = 1 + (int)act->desc.u.act.kind;
  if (act) o->alpha = act->desc.u.act.alpha;
  return slabs_supported(p, out);
}

static void slabs_replace(const slabs_of_t *s, ct_plan_op_t *pool)
{
  ct_plan_op_t one, *act = slabs_before(s, pool, CT_OP_ACT);
  ct_plan_op_t *conv = slabs_before(s, act ? act : pool, CT_OP_CONV);
  if (!conv || !slabs_join(s, pool, act, conv, &one)) return;
  *pool = one;
  conv->out = -1; /* removed below */
  if (act) act->out = -1;
}

int ct__plan_slabs(ct_plan_t *p)
{
  if (p->o.slab_mb <= 0 || p->o.quant) return CT_OK;
  slabs_of_t s = {p, ct_mem_array(2 * (int64_t)p->values, sizeof *s.readers, "plan"), NULL};
  if (!s.readers) return CT_ERR_NOMEM;
  s.maker = s.readers + p->values;
  ct__plan_readers(p, s.readers, s.maker);
  for (int o = 0; o < p->ops; o++)
    if (p->op[o].desc.kind == CT_OP_POOL) slabs_replace(&s, &p->op[o]);
  ct__plan_remove(p);
  ct_mem_free(s.readers);
  return CT_OK;
}
