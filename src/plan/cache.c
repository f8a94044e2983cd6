/* Decoding: gives each attention a cache of the keys and values of the elements before those that
 * the plan computes.  An op CACHE appends the new ones, and the attention reads the cache.  This is
 * the same model only if every other op computes an element of a sequence from that element
 * alone. */
#include "plan/passes.h"

#include "backend/ct_element.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

static const char *cache_layer(const ct_plan_t *p, const ct_plan_op_t *op)
{
  return op->layer < 0 ? "helper" : p->graph->layer[op->layer].name;
}

static int cache_refuse(const ct_plan_t *p, const ct_plan_op_t *op, const char *why)
{
  char text[160];
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "layer %s cannot use a cache: '%s' %s",
                    cache_layer(p, op), ct_op_text(&op->desc, text, sizeof text), why);
}

static int cache_emit(ct_plan_t *p, ct_plan_op_t *op, const ct_shape_t *y, int *out)
{
  op->layer = op->saved = -1;
  op->out = *out = ct__plan_value(p, y, 0);
  return *out < 0 || ct__plan_op(p, op) < 0 ? CT_ERR_NOMEM : CT_OK;
}

/* Appends an op that copies `count` features of value v, from the feature `first` on. */
static int cache_slice(ct_plan_t *p, int v, int64_t first, int64_t count, int *out)
{
  ct_plan_op_t op = {.in = {v, -1, -1}};
  ct_shape_t x = p->value[v].shape, y = x;
  y.dim[2] = count;
  ct_op_desc_init(&op.desc, CT_OP_STRIDED, &x, &y);
  for (int i = 0; i < 3; i++) {
    op.desc.u.strided.from[i] = i;
    op.desc.u.strided.step[i] = 1;
  }
  op.desc.u.strided.start[2] = first;
  return cache_emit(p, &op, &y, out);
}

/* Appends an op that writes value v to a cache. */
static int cache_append(ct_plan_t *p, int v, int *out)
{
  ct_plan_op_t op = {.in = {v, -1, -1}};
  ct_shape_t x = p->value[v].shape, y = x;
  y.dim[1] = p->o.cache;
  ct_op_desc_init(&op.desc, CT_OP_CACHE, &x, &y);
  int rc = cache_emit(p, &op, &y, out);
  if (rc == CT_OK) p->value[*out].state = 1;
  return rc;
}

/* Appends an attention with caches of its keys and values. */
static int cache_attention(ct_plan_t *p, ct_plan_op_t op)
{
  int rc = CT_OK;
  ct_op_desc_t *d = &op.desc;
  ct_shape_t q = d->x, k = d->x2, v = d->x3;
  if (!d->u.sdpa.causal || !d->u.sdpa.heads)
    return cache_refuse(p, &op, "is not causal attention with the option heads");
  if (d->u.sdpa.mask != CT_MASK_NONE) return cache_refuse(p, &op, "has a mask");
  if (d->u.sdpa.packed == 1) {
    int64_t keys = d->u.sdpa.kv_heads ? d->u.sdpa.kv_heads : d->u.sdpa.heads;
    int64_t wide = d->y.dim[2] / d->u.sdpa.heads;
    int all = op.in[0];
    CT_TRY(cache_slice(p, all, 0, d->y.dim[2], &op.in[0]));
    CT_TRY(cache_slice(p, all, d->y.dim[2], 2 * keys * wide, &op.in[1]));
    q = p->value[op.in[0]].shape;
    k = p->value[op.in[1]].shape;
    d->u.sdpa.packed = 2;
  }
  for (int i = 1; i < CT_OP_INPUTS; i++)
    if (op.in[i] >= 0) CT_TRY(cache_append(p, op.in[i], &op.in[i]));
  k.dim[1] = p->o.cache;
  if (v.ndim) v.dim[1] = p->o.cache;
  d->x = q;
  ct_op_desc_more(d, &k, v.ndim ? &v : NULL);
  d->u.sdpa.cached = 1;
  CT_TRY(ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK);
out:
  return rc;
}

int ct__plan_cache(ct_plan_t *p)
{
  int rc = CT_OK, n = p->ops;
  ct_plan_op_t *lowered = p->op;
  if (!p->o.cache) return CT_OK;
  p->op = NULL;
  p->ops = 0;
  p->cap_ops = 0;
  for (int i = 0; i < n; i++) {
    if (lowered[i].desc.kind == CT_OP_SDPA) {
      CT_TRY(cache_attention(p, lowered[i]));
      continue;
    }
    if (!ct_op_by_element(&lowered[i].desc, p->o.n, p->graph->input.dim[1]))
      CT_TRY(cache_refuse(p, &lowered[i], "reads other elements of a sequence"));
    CT_TRY(ct__plan_op(p, &lowered[i]) < 0 ? CT_ERR_NOMEM : CT_OK);
  }
  ct__plan_note_outputs(p);
out:
  if (p->op != lowered) ct_mem_free(lowered);
  return rc;
}
