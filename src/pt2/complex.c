/* Complex numbers become pairs of real ones (complex.h).
 *
 * So no later pass and no layer has to know of complex numbers: slices, products and sums of pairs
 * are those of real tensors, constants are computed as pairs, and a complex parameter is a real one
 * that weight files hold as complex64. */
#include "pt2/complex.h"

#include <string.h>

#include "base/ct_mem.h"

/* ---- arguments ---- */

int ct__complex_arg(const ct__complex_t *c, const char *name)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(c->node, name);
  return a && a->kind == CT_PT2_TENSOR ? a->tensor[0] : -1;
}

int ct__complex_is(const ct__complex_t *c, int v)
{
  return v >= 0 && v < c->values && c->is[v];
}

ct__complex_shape_t ct__complex_shape(const ct__complex_t *c, int v)
{
  ct__complex_shape_t s = {.ndim = c->p->value[v].ndim};
  if (s.ndim > CT__PT2_DIMS) s.ndim = CT__PT2_DIMS;
  for (int i = 0; i < s.ndim; i++)
    s.dim[i] = c->p->value[v].dim[i];
  return s;
}

/* ---- nodes ---- */

int ct__complex_value(ct__complex_t *c, const ct__complex_shape_t *s)
{
  int v = 0;
  if (c->rc != CT_OK) return 0;
  ct_pt2_dim_t *dim = ct__pt2_alloc(c->p, s->ndim, sizeof *dim);
  c->rc = dim ? ct__pt2_new_value(c->p, c->node->out[0], c->node->out[0], c->node->out[0], &v)
              : CT_ERR_NOMEM;
  if (c->rc != CT_OK) return 0;
  memcpy(dim, s->dim, (size_t)s->ndim * sizeof *dim);
  c->p->value[v].type = CT_ELEM_F32;
  c->p->value[v].ndim = s->ndim;
  c->p->value[v].dim = dim;
  return v;
}

int ct__complex_add(ct__complex_t *c, ct__pt2_make_t *m, const ct__complex_shape_t *s)
{
  int v = ct__complex_value(c, s);
  if (c->rc == CT_OK) c->rc = ct__pt2_make_end(c->p, m, v);
  return c->rc == CT_OK ? v : 0;
}

int ct__complex_done(ct__complex_t *c, int v)
{
  ct__pt2_make_t m = ct__pt2_make("aten.alias.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", v);
  if (c->rc == CT_OK) c->rc = ct__pt2_make_end(c->p, &m, c->node->out[0]);
  return 1;
}

int ct__complex_one(ct__complex_t *c, const char *op, int x)
{
  ct__pt2_make_t m = ct__pt2_make(op, c->node);
  const ct__complex_shape_t s = ct__complex_shape(c, x);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  return ct__complex_add(c, &m, &s);
}

int ct__complex_two(ct__complex_t *c, const char *op, int x, int y)
{
  ct__pt2_make_t m = ct__pt2_make(op, c->node);
  const ct__complex_shape_t a = ct__complex_shape(c, x), b = ct__complex_shape(c, y);
  ct__complex_shape_t s = a.ndim >= b.ndim ? a : b;
  const ct__complex_shape_t *small = a.ndim >= b.ndim ? &b : &a;
  for (int i = 1; i <= small->ndim; i++) {
    const ct_pt2_dim_t *d = &small->dim[small->ndim - i];
    if (d->n != 1 || d->batch) s.dim[s.ndim - i] = *d;
  }
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_tensor(c->p, &m, "other", y);
  return ct__complex_add(c, &m, &s);
}

int ct__complex_view(ct__complex_t *c, int x, const ct__complex_shape_t *s)
{
  ct__pt2_make_t m = ct__pt2_make("aten.view.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_dims(c->p, &m, "size", s->dim, s->ndim);
  return ct__complex_add(c, &m, s);
}

int ct__complex_wide(ct__complex_t *c, int x)
{
  ct__complex_shape_t s = ct__complex_shape(c, x);
  s.dim[s.ndim++] = (ct_pt2_dim_t){1, 0};
  return ct__complex_view(c, x, &s);
}

int ct__complex_part(ct__complex_t *c, int x, int i, int keep)
{
  ct__pt2_make_t m = ct__pt2_make(keep ? "aten.slice.Tensor" : "aten.select.int", c->node);
  ct__complex_shape_t s = ct__complex_shape(c, x);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_int(c->p, &m, "dim", s.ndim - 1);
  ct__pt2_make_int(c->p, &m, keep ? "start" : "index", i);
  if (keep) ct__pt2_make_int(c->p, &m, "end", i + 1);
  s.ndim -= keep ? 0 : 1;
  if (keep) s.dim[s.ndim - 1].n = 1;
  return ct__complex_add(c, &m, &s);
}

int ct__complex_cat(ct__complex_t *c, int x, int y, int dim)
{
  ct__pt2_make_t m = ct__pt2_make("aten.cat.default", c->node);
  int *list = ct__pt2_alloc(c->p, 2, sizeof *list);
  if (!list) c->rc = CT_ERR_NOMEM;
  if (c->rc != CT_OK) return 0;
  list[0] = x;
  list[1] = y;
  const ct_pt2_arg_t tensors = {.kind = CT_PT2_TENSORS, .n = 2, .tensor = list};
  ct__complex_shape_t s = ct__complex_shape(c, x);
  s.dim[dim].n += c->p->value[y].dim[dim].n;
  ct__pt2_make_copy(&m, "tensors", &tensors);
  ct__pt2_make_int(c->p, &m, "dim", dim);
  return ct__complex_add(c, &m, &s);
}

/* A constant of one element, [x]. */
static int complex_number(ct__complex_t *c, double x)
{
  ct__pt2_make_t m = ct__pt2_make("aten.full.default", c->node);
  const ct__complex_shape_t s = {.ndim = 1, .dim = {{1, 0}}};
  double *number = ct__pt2_alloc(c->p, 1, sizeof *number);
  if (!number) c->rc = CT_ERR_NOMEM;
  if (c->rc != CT_OK) return 0;
  *number = x;
  const ct_pt2_arg_t fill = {.kind = CT_PT2_FLOAT, .n = 1, .number = number};
  ct__pt2_make_dims(c->p, &m, "size", s.dim, 1);
  ct__pt2_make_copy(&m, "fill_value", &fill);
  return ct__complex_add(c, &m, &s);
}

int ct__complex_numbers(ct__complex_t *c, double a, double b)
{
  const int most = (int)(sizeof c->numbers / sizeof *c->numbers);
  for (int i = 0; i < c->known; i++)
    if (c->numbers[i].a == a && c->numbers[i].b == b) return c->numbers[i].value;
  int re = complex_number(c, a), im = complex_number(c, b), v = ct__complex_cat(c, re, im, 0);
  if (c->rc == CT_OK && c->known < most) {
    c->numbers[c->known].a = a;
    c->numbers[c->known].b = b;
    c->numbers[c->known++].value = v;
  }
  return v;
}

/* ---- complex numbers ---- */

int ct__complex_pair(ct__complex_t *c, int re, int im)
{
  int x = ct__complex_wide(c, re), y = ct__complex_wide(c, im);
  return ct__complex_cat(c, x, y, c->p->value[x].ndim - 1);
}

int ct__complex_of(ct__complex_t *c, int v)
{
  if (ct__complex_is(c, v)) return v;
  int x = ct__complex_wide(c, v), one = ct__complex_numbers(c, 1, 0);
  return ct__complex_two(c, "aten.mul.Tensor", x, one);
}

int ct__complex_turned(ct__complex_t *c, int z)
{
  ct__pt2_make_t m = ct__pt2_make("aten.flip.default", c->node);
  const ct__complex_shape_t s = ct__complex_shape(c, z);
  const ct_pt2_dim_t last = {s.ndim - 1, 0};
  ct__pt2_make_tensor(c->p, &m, "self", z);
  ct__pt2_make_dims(c->p, &m, "dims", &last, 1);
  int x = ct__complex_add(c, &m, &s), sign = ct__complex_numbers(c, -1, 1);
  return ct__complex_two(c, "aten.mul.Tensor", x, sign);
}

int ct__complex_conj(ct__complex_t *c, int z)
{
  int sign = ct__complex_numbers(c, 1, -1);
  return ct__complex_two(c, "aten.mul.Tensor", z, sign);
}

int ct__complex_mul(ct__complex_t *c, int z, int w)
{
  int re = ct__complex_part(c, w, 0, 1), im = ct__complex_part(c, w, 1, 1);
  int turned = ct__complex_turned(c, z);
  int x = ct__complex_two(c, "aten.mul.Tensor", z, re);
  int y = ct__complex_two(c, "aten.mul.Tensor", turned, im);
  return ct__complex_two(c, "aten.add.Tensor", x, y);
}

/* ---- the pass ---- */

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
    if (is->type != CT_ELEM_C64 || is->ndim >= CT__PT2_DIMS) continue;
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
