/* Complex numbers become pairs of real ones (complex.h).
 *
 * So no later pass and no layer has to know of complex numbers: slices, products and sums of pairs
 * are those of real tensors, constants are computed as pairs, and a complex parameter is a real one
 * that weight files hold as complex64. */
#include "pt2/complex.h"

#include <string.h>

#include "base/ct_mem.h"

static const ct__complex_row_t *complex_find(const ct_pt2_node_t *node)
{
  static const ct__complex_row_t *const tables[] = {ct__complex_views, ct__complex_math,
                                                    ct__complex_products, ct__complex_transforms};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (const ct__complex_row_t *r = tables[i]; r->op; r++)
      if (ct_pt2_is(node, r->op)) return r;
  return NULL;
}

/* Whether a node has complex arguments or results. */
static int complex_has(const ct__complex_t *c, const ct_pt2_node_t *node)
{
  for (int k = 0; k < node->outs; k++)
    if (ct__complex_is(c, node->out[k])) return 1;
  for (int a = 0; a < node->args; a++)
    for (int k = 0; node->arg[a].tensor && k < node->arg[a].n; k++)
      if (!ct__pt2_shape_only(node, &node->arg[a]) && ct__complex_is(c, node->arg[a].tensor[k]))
        return 1;
  return 0;
}

/* Appends a node that has no rule, under a name that no table has. */
static int complex_refuse(ct__complex_t *c, const ct_pt2_node_t *node)
{
  int rc = CT_OK;
  ct_pt2_node_t copy = *node;
  copy.op = ct__pt2_format(c->p, "complex %s", node->op);
  if (!copy.op) CT_TRY(CT_ERR_NOMEM);
  copy.known = 0;
  for (int k = 0; k < copy.outs; k++)
    if (copy.out[k] >= 0) c->p->value[copy.out[k]].node = c->p->g.nodes;
  CT_TRY(ct__pt2_add_node(c->p, &copy));
out:
  return rc;
}

static int complex_node(ct__complex_t *c, const ct_pt2_node_t *node)
{
  int rc = CT_OK, done = 0;
  if (!node->live || !complex_has(c, node)) {
    for (int k = 0; k < node->outs; k++)
      if (node->out[k] >= 0) c->p->value[node->out[k]].node = c->p->g.nodes;
    return ct__pt2_add_node(c->p, node);
  }
  const ct__complex_row_t *row = complex_find(node);
  c->node = node;
  if (row && node->outs > 0 && node->out[0] >= 0) done = row->rule(c, row->data);
  CT_TRY(c->rc);
  if (!done) CT_TRY(complex_refuse(c, node));
out:
  return rc;
}

/* Makes the complex values real ones of pairs. */
static int complex_values(ct__complex_t *c, int *found)
{
  int rc = CT_OK;
  for (int v = 0; v < c->values; v++) {
    ct_pt2_value_t *is = &c->p->value[v];
    int64_t count = 1;
    if (is->type != CT_ELEM_C64 || is->ndim >= CT__PT2_DIMS) continue;
    for (int i = 0; i < is->ndim; i++)
      if (__builtin_mul_overflow(count, is->dim[i].n, &count) || count > INT64_MAX / 8)
        CT_TRY(ct__pt2_damaged(c->p, "the tensor '%s' is too large", is->name));
    ct_pt2_dim_t *dim = ct__pt2_alloc(c->p, is->ndim + 1, sizeof *dim);
    if (!dim) CT_TRY(CT_ERR_NOMEM);
    if (is->ndim) memcpy(dim, is->dim, (size_t)is->ndim * sizeof *dim);
    dim[is->ndim] = (ct_pt2_dim_t){2, 0};
    is->dim = dim;
    is->ndim++;
    is->type = CT_ELEM_F32;
    is->pairs = 1;
    c->is[v] = 1;
    *found = 1;
  }
out:
  return rc;
}

int ct__pt2_complex(ct__pt2_t *p)
{
  int rc = CT_OK, n = p->g.nodes, found = 0;
  ct_pt2_node_t *file = NULL;
  ct__complex_t c = {.p = p, .values = p->g.values};
  c.is = ct__pt2_alloc(p, c.values, 1);
  if (!c.is) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(complex_values(&c, &found));
  if (!found) goto out;
  file = p->node;
  p->node = NULL;
  p->g.node = NULL;
  p->g.nodes = 0;
  p->node_cap = 0;
  for (int i = 0; i < n; i++)
    CT_TRY(complex_node(&c, &file[i]));
out:
  ct_mem_free(file);
  return rc;
}
