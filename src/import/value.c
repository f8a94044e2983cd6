/* Values of the program and their layers: parameters, buffers and constants become layers when they
 * are used as operands. */
#include <stdarg.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

enum { VALUE_MOST = 1 << 26 }; /* a constant of more elements is not searched for equal ones */

int ct__im_refuse(const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int rc = ct_err_vset(CT_ERR_UNSUP, __FILE__, __LINE__, fmt, args);
  va_end(args);
  return rc;
}

int ct__im_is_empty(const ct__im_t *t, int value)
{
  const ct_pt2_value_t *v = &t->g->value[value];
  for (int i = 0; i < v->ndim; i++)
    if (v->dim[i].n == 0) return 1;
  return 0;
}

int ct__im_shape(const ct__im_t *t, int value, ct_shape_t *out)
{
  const ct_pt2_value_t *v = &t->g->value[value];
  int64_t dim[CT_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (v->ndim > CT_MAX_DIMS)
    return ct__im_refuse("a tensor has %d dims; up to %d are supported", v->ndim, CT_MAX_DIMS);
  for (int i = 0; i < v->ndim; i++)
    dim[i] = v->dim[i].n;
  *out = ct_shape_dims(v->ndim ? v->ndim : 1, dim);
  for (int i = 0; i < v->ndim; i++) {
    if (v->dim[i].batch != 0 && v->dim[i].batch != 1)
      return ct__im_refuse("dim %d of a tensor is neither a number nor a multiple of the batch "
                           "size",
                           i);
    if (v->dim[i].n < 1) return ct__im_refuse("a tensor has no elements");
    if (v->dim[i].batch) out->batch |= 1u << i;
  }
  return CT_OK;
}

static const char *value_kind(const ct_pt2_value_t *v)
{
  if (v->kind == CT_PT2_PARAMETER) return "parameter";
  if (v->kind == CT_PT2_BUFFER && v->persistent) return "buffer";
  return "constant";
}

/* Makes the layer of a parameter, buffer or constant.  It comes before all layers of nodes. */
static int value_operand(ct__im_t *t, int value, int *layer)
{
  int rc = CT_OK, at = t->at;
  const ct_pt2_value_t *v = &t->g->value[value];
  ct_shape_t s;
  CT_TRY(ct__im_shape(t, value, &s));
  if (s.batch)
    return ct__im_refuse("uses the constant '%s', whose size is the batch size", v->name);
  if (v->type < CT_ELEMS && !ct_elem_has_numbers(v->type))
    return ct__im_refuse("uses '%s', whose type is %s", v->state, ct_elem_name(v->type));
  int64_t dim[CT_MAX_DIMS];
  memcpy(dim, s.dim, sizeof dim);
  const char *list = ct__im_list(t, s.ndim, dim, 0);
  if (!list) return CT_ERR_NOMEM;
  t->at = -1;
  const char *more = v->pairs && strcmp(value_kind(v), "constant") != 0 ? ", complex: yes" : "";
  rc = ct__im_add(t, layer, value_kind(v), &s, 0, NULL, "shape: %s%s", list, more);
  t->at = at;
  CT_TRY(rc);
  t->layer[*layer].value = value;
  t->value[value].layer = *layer;
out:
  return rc;
}

int ct__im_operand(ct__im_t *t, int value, int *layer)
{
  int root = ct__im_root(t, value);
  *layer = t->value[root].layer;
  if (*layer >= 0) return CT_OK;
  const ct_pt2_value_t *v = &t->g->value[root];
  if (v->kind == CT_PT2_NODE || v->kind == CT_PT2_INPUT)
    return ct__im_refuse("uses '%s', which no earlier op makes", v->name);
  return value_operand(t, root, layer);
}

int ct__im_in(ct__im_t *t, const ct_pt2_node_t *n, const char *name, int may_be_none, int *layer)
{
  int rc = CT_OK, value;
  *layer = -1;
  CT_TRY(ct_pt2_tensor(t->g, n, name, may_be_none, &value));
  if (value >= 0) CT_TRY(ct__im_operand(t, value, layer));
out:
  return rc;
}

static int value_read(ct__im_t *t, int value, int64_t count)
{
  int rc = CT_OK, same = 1;
  ct__im_value_t *v = &t->value[value];
  double *data = ct_mem_array(count, sizeof *data, "a constant of a program");
  if (!data) return CT_ERR_NOMEM;
  CT_TRY(ct_pt2_doubles(t->g, value, data));
  for (int64_t i = 1; i < count && same; i++)
    same = data[i] == data[0];
  v->uniform = same && data[0] == data[0];
  v->number = data[0];
out:
  ct_mem_free(data);
  return rc;
}

/* Returns what a value was expanded from. */
static int value_unexpanded(const ct__im_t *t, int value)
{
  for (;;) {
    const ct_pt2_value_t *v = &t->g->value[value];
    const ct_pt2_node_t *n = v->kind == CT_PT2_NODE && v->node >= 0 ? &t->g->node[v->node] : NULL;
    if (!n || !(ct_pt2_is(n, "aten.expand") || ct_pt2_is(n, "aten.expand_as"))) return value;
    value = n->arg[0].tensor[0];
  }
}

int ct__im_uniform(ct__im_t *t, int value, double *number)
{
  value = value_unexpanded(t, value);
  const ct_pt2_value_t *v = &t->g->value[value];
  int64_t count = ct_pt2_count(v);
  *number = 0;
  if (v->kind != CT_PT2_CONSTANT && v->kind != CT_PT2_FOLDED) return 0;
  if (v->type < CT_ELEMS && !ct_elem_has_numbers(v->type)) return 0;
  if (count < 1 || count > VALUE_MOST) return 0;
  if (t->value[value].uniform < 0 && value_read(t, value, count) != CT_OK) return 0;
  *number = t->value[value].number;
  return t->value[value].uniform == 1;
}

int ct__im_constant(ct__im_t *t, const ct_shape_t *shape, const float *data, int *layer)
{
  int rc = CT_OK;
  int64_t dim[CT_MAX_DIMS];
  memcpy(dim, shape->dim, sizeof dim);
  const char *list = ct__im_list(t, shape->ndim, dim, 0);
  if (!list) return CT_ERR_NOMEM;
  CT_TRY(ct__im_add(t, layer, "constant", shape, 0, NULL, "shape: %s", list));
  t->layer[*layer].data = data;
out:
  return rc;
}

int ct__im_numbers(ct__im_t *t, int value, ct_shape_t *shape, const double **data)
{
  int rc = CT_OK, base = value_unexpanded(t, value), ndim = t->g->value[value].ndim;
  const ct_pt2_value_t *v = &t->g->value[base];
  double *to;
  if (v->kind == CT_PT2_NODE || v->kind == CT_PT2_INPUT || v->kind == CT_PT2_PARAMETER)
    return ct__im_refuse("its indices are not constant");
  CT_TRY(ct__im_shape(t, base, shape));
  to = ct__im_alloc(t, ct_shape_count(shape), sizeof *to);
  if (!to) return CT_ERR_NOMEM;
  CT_TRY(ct_pt2_doubles(t->g, base, to));
  *data = to;
  while (shape->ndim < ndim) {
    memmove(shape->dim + 1, shape->dim, (size_t)shape->ndim * sizeof *shape->dim);
    shape->dim[0] = 1;
    shape->ndim++;
  }
out:
  return rc;
}

int ct__im_owned(const ct__im_t *t, int value, unsigned role)
{
  int root = ct__im_root(t, value);
  const ct_pt2_value_t *v = &t->g->value[root];
  return v->kind == CT_PT2_PARAMETER && t->value[root].roles == role;
}

int ct__im_set(ct__im_t *t, const ct_pt2_node_t *n, int i, int layer)
{
  int rc = CT_OK;
  ct_shape_t want;
  char has[100], wants[100];
  if (i >= n->outs || n->out[i] < 0) return CT_OK;
  CT_TRY(ct__im_shape(t, n->out[i], &want));
  if (!ct__im_same(&want, &t->layer[layer].shape))
    return ct__im_refuse("its layers give %s (batch %u), not %s (batch %u)",
                         ct_shape_text(&t->layer[layer].shape, has, sizeof has),
                         t->layer[layer].shape.batch, ct_shape_text(&want, wants, sizeof wants),
                         want.batch);
  t->value[n->out[i]].layer = layer;
out:
  return rc;
}

int ct__im_done(ct__im_t *t, const ct_pt2_node_t *n, int layer)
{
  return ct__im_set(t, n, 0, layer);
}

int ct__im_result(const ct__im_t *t, const ct_pt2_node_t *n, ct_shape_t *out)
{
  return ct__im_shape(t, n->out[0], out);
}

int ct__im_dim(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int ndim, int *out)
{
  int64_t d;
  int rc = ct_pt2_int(t->g, n, name, &d);
  if (rc != CT_OK) return rc;
  if (d < -ndim || d >= ndim) return ct__im_refuse("%s: there is no dim %d", name, (int)d);
  *out = (int)(d < 0 ? d + ndim : d);
  return CT_OK;
}

int ct__im_dim_bits(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int ndim,
                    unsigned *bits)
{
  int rc = CT_OK, count;
  const ct_pt2_dim_t *list;
  *bits = (1u << ndim) - 1;
  CT_TRY(ct_pt2_dims(t->g, n, name, &count, &list));
  if (count == 0) return CT_OK;
  *bits = 0;
  for (int i = 0; i < count; i++) {
    int64_t d = list[i].n < 0 ? list[i].n + ndim : list[i].n;
    if (d < 0 || d >= ndim) return ct__im_refuse("%s: there is no dim %d", name, (int)list[i].n);
    *bits |= 1u << d;
  }
out:
  return rc;
}

int ct__im_unused(const ct__im_t *t, int value)
{
  return value < 0 || t->g->value[value].uses == 0;
}
