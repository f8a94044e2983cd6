/* Complex numbers as pairs: nodes and constants that rules append. */
#include <string.h>

#include "pt2/complex.h"

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

int ct__complex_ndim(ct__complex_t *c, int v)
{
  if (v < 0 && c->rc == CT_OK)
    c->rc = ct_pt2_refuse(&c->p->g, c->node, CT_ERR_FORMAT, "one of its tensors is missing");
  return v < 0 ? 0 : c->p->value[v].ndim;
}

ct__complex_shape_t ct__complex_shape(ct__complex_t *c, int v)
{
  if (ct__complex_ndim(c, v) == 0) return (ct__complex_shape_t){.ndim = 0};
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
  if (s.ndim < 1) return 0;
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
  const ct__complex_shape_t more = ct__complex_shape(c, y);
  if (c->rc != CT_OK || dim < 0 || dim >= s.ndim) return 0;
  s.dim[dim].n += more.dim[dim].n;
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
  return ct__complex_cat(c, x, y, ct__complex_ndim(c, x) - 1);
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
