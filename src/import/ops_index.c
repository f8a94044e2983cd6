/* Rules: embeddings and indices. */
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

/* Converts constant indices; those below 0 count from the end of a dim of \a size elements. */
static int64_t *index_whole(ct__im_t *t, int64_t n, const double *data, int64_t size)
{
  int64_t *v = ct__im_alloc(t, n, sizeof *v);
  for (int64_t i = 0; v && i < n; i++)
    v[i] = (int64_t)data[i] + (data[i] < 0 ? size : 0);
  return v;
}

/* Replaces one dim by the dims of an index. */
static ct_shape_t index_spread(const ct_shape_t *s, int dim, const ct_shape_t *index)
{
  ct_shape_t y = ct_shape(1, 1);
  y.ndim = 0;
  for (int i = 0; i < s->ndim; i++) {
    if (i != dim) {
      y.batch |= (s->batch >> i & 1) << y.ndim;
      y.dim[y.ndim++] = s->dim[i];
      continue;
    }
    for (int k = 0; k < index->ndim && y.ndim < CT_MAX_DIMS; k++)
      y.dim[y.ndim++] = index->dim[k];
  }
  return y;
}

/* Takes rows of a table at constant places; the result has the dims of the index first. */
static int index_table(ct__im_t *t, int table, int dim, int ids, int *out)
{
  int rc = CT_OK;
  ct_shape_t shape;
  const double *data;
  const ct_shape_t s = t->layer[table].shape;
  CT_TRY(ct__im_numbers(t, ids, &shape, &data));
  int64_t count = ct_shape_count(&shape);
  int64_t *list = index_whole(t, count, data, s.dim[dim]);
  if (!list) return CT_ERR_NOMEM;
  CT_TRY(ct__im_take(t, table, dim, count, list, out));
  ct_shape_t y = index_spread(&s, dim, &shape);
  CT_TRY(ct__im_reshape(t, *out, &y, out));
out:
  return rc;
}

/* Brings a result that may lack the expansion of its index to the shape of the program. */
static int index_finish(ct__im_t *t, const ct_pt2_node_t *n, int x)
{
  int rc = CT_OK;
  ct_shape_t s;
  CT_TRY(ct__im_result(t, n, &s));
  CT_TRY(ct__im_expand(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* table[ids]; what the ids were expanded from is enough. */
static int index_rows(ct__im_t *t, int table, int ids, const char *more, int *out)
{
  int rc = CT_OK, base = ct__im_is(t, ids, "expand") ? t->layer[ids].in[0] : ids;
  ct_shape_t y[2];
  for (int i = 0; i < 2; i++) {
    const ct_shape_t *s = &t->layer[i ? ids : base].shape, *w = &t->layer[table].shape;
    y[i] = *s;
    if (s->ndim + w->ndim - 1 > CT_MAX_DIMS) return ct__im_refuse("has more than 8 dims");
    for (int k = 1; k < w->ndim; k++)
      y[i].dim[y[i].ndim++] = w->dim[k];
  }
  CT_TRY(ct__im_add(t, out, "rows", &y[0], 2, (int[]){table, base}, "%s", more));
  CT_TRY(ct__im_expand(t, *out, &y[1], out));
out:
  return rc;
}

static int index_embedding(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, w, value, ids, x, by_count = 0;
  int64_t pad = -1;
  const char *more = "";
  ct_shape_t y;
  (void)data;
  CT_TRY(ct_pt2_bool(t->g, n, "scale_grad_by_freq", &by_count));
  if (by_count) return ct__im_refuse("scales gradients by the frequency of the index");
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 0, &w));
  CT_TRY(ct_pt2_tensor(t->g, n, "indices", 0, &value));
  CT_TRY(ct_pt2_int(t->g, n, "padding_idx", &pad));
  CT_TRY(ct__im_result(t, n, &y));
  const ct_pt2_value_t *v = &t->g->value[w];
  ct_shape_t shape;
  const double *numbers;
  if (!(t->g->value[value].on & CT_PT2_ON_INPUT) && pad < 0 &&
      ct__im_numbers(t, value, &shape, &numbers) == CT_OK) {
    CT_TRY(ct__im_operand(t, w, &x));
    CT_TRY(index_table(t, x, 0, value, &x));
    return index_finish(t, n, x);
  }
  CT_TRY(ct__im_operand(t, value, &ids));
  if (ct__im_owned(t, w, CT__IM_EMBEDDING)) {
    if (pad >= 0) more = ct__im_format(t, ", padding_idx: %" PRId64, pad);
    if (!more) return CT_ERR_NOMEM;
    CT_TRY(ct__im_one(t, &x, "embedding", &y, ids, "rows: %" PRId64 ", dim: %" PRId64 "%s",
                      v->dim[0].n, v->dim[1].n, more));
    ct__im_weight(t, x, "weight", w);
  } else {
    if (pad >= 0 && v->kind == CT_PT2_PARAMETER)
      more = ct__im_format(t, "padding_idx: %" PRId64, pad);
    if (!more) return CT_ERR_NOMEM;
    CT_TRY(ct__im_operand(t, w, &x));
    CT_TRY(index_rows(t, x, ids, more, &x));
  }
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Joins neighbouring dims [first, first + count) to one. */
static int index_join(ct__im_t *t, int x, int first, int count, int *out)
{
  const ct_shape_t s = t->layer[x].shape;
  ct_shape_t y = s;
  int64_t n = 1;
  for (int i = first; i < first + count; i++) {
    n *= s.dim[i];
    if (s.batch >> i & 1) return ct__im_refuse("takes samples of the batch by their indices");
  }
  y.ndim = s.ndim - count + 1;
  y.dim[first] = n;
  y.batch = s.batch & ((1u << first) - 1);
  for (int i = first + count; i < s.ndim; i++) {
    y.dim[i - count + 1] = s.dim[i];
    y.batch |= (s.batch >> i & 1) << (i - count + 1);
  }
  return ct__im_reshape(t, x, &y, out);
}

/* Returns the element of a constant that broadcasts, at the place `at` of a larger shape. */
static double index_at(const ct_shape_t *s, const double *data, const ct_shape_t *big, int64_t at)
{
  int64_t place = 0, stride = 1;
  for (int i = big->ndim - 1, k = s->ndim - 1; k >= 0; i--, k--) {
    int64_t c = at % big->dim[i];
    at /= big->dim[i];
    if (s->dim[k] != 1) place += c * stride;
    stride *= s->dim[k];
  }
  return data[place];
}

/* Several constant indices of neighbouring dims: they are joined, and so are the indices. */
static int index_several(ct__im_t *t, int x, int first, int count, const int *list, int *out)
{
  int rc = CT_OK;
  ct_shape_t shape[CT_MAX_DIMS], all = ct_shape(1, 1);
  const double *data[CT_MAX_DIMS];
  const ct_shape_t s = t->layer[x].shape;
  for (int i = 0; i < count; i++) {
    ct_shape_t both;
    CT_TRY(ct__im_numbers(t, list[first + i], &shape[i], &data[i]));
    if (!ct__im_broadcast(&all, &shape[i], &both)) return ct__im_refuse("its indices do not fit");
    all = both;
  }
  int64_t n = ct_shape_count(&all), *index = ct__im_alloc(t, n, sizeof *index);
  if (!index) return CT_ERR_NOMEM;
  for (int64_t k = 0; k < n; k++)
    for (int i = 0; i < count; i++) {
      int64_t size = s.dim[first + i];
      int64_t v = (int64_t)index_at(&shape[i], data[i], &all, k);
      index[k] = index[k] * size + (v < 0 ? v + size : v);
    }
  CT_TRY(index_join(t, x, first, count, &x));
  const ct_shape_t joined = t->layer[x].shape;
  CT_TRY(ct__im_take(t, x, first, n, index, &x));
  ct_shape_t y = index_spread(&joined, first, &all);
  CT_TRY(ct__im_reshape(t, x, &y, out));
out:
  return rc;
}

/* Returns 1 if a value is arange(N), the numbers of the samples, in any shape. */
static int index_is_counter(const ct__im_t *t, int value)
{
  static const char *const views[] = {"aten.unsqueeze", "aten.slice", "aten.view", "aten.reshape",
                                      "aten.expand"};
  for (;;) {
    const ct_pt2_value_t *v = &t->g->value[value];
    int view = 0;
    if (v->kind != CT_PT2_NODE || v->node < 0) return 0;
    const ct_pt2_node_t *n = &t->g->node[v->node];
    if (ct_pt2_is(n, "aten.arange")) return v->ndim == 1 && v->dim[0].batch && v->dim[0].n == 1;
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
      view |= ct_pt2_is(n, views[i]);
    if (!view || n->arg[0].kind != CT_PT2_TENSOR) return 0;
    value = n->arg[0].tensor[0];
  }
}

/* x[arange(N), index, ...]: the samples are taken in their order. */
static int index_by_sample(ct__im_t *t, const ct_pt2_node_t *n, int x, int count, const int *list)
{
  int rc = CT_OK;
  ct_shape_t y;
  CT_TRY(ct__im_result(t, n, &y));
  if (t->layer[x].shape.batch != 1 || y.batch != 1 || count < 2)
    return ct__im_refuse("takes samples of the batch by their numbers");
  for (int i = 1; i < count; i++)
    if (list[i] < 0) return ct__im_refuse("its indices are not of neighbouring dims");
  CT_TRY(index_several(t, x, 1, count - 1, list, &x));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int index_tensor(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, count, first = -1, last = -1, ids;
  const int *list;
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_tensors(t->g, n, "indices", &count, &list));
  CT_TRY(ct__im_result(t, n, &y));
  for (int i = 0; i < count; i++) {
    if (list[i] < 0) continue;
    if (t->g->value[list[i]].type == CT_ELEM_BOOL) return ct__im_refuse("takes by a mask");
    if (first < 0) first = i;
    last = i;
  }
  if (first < 0) return ct__im_done(t, n, x);
  if (first == 0 && index_is_counter(t, list[0])) return index_by_sample(t, n, x, count, list);
  for (int i = first; i <= last; i++)
    if (list[i] >= 0 && t->value[list[i]].layer >= 0 && !t->layer[t->value[list[i]].layer].kind)
      return ct__im_refuse("one of its indices is not translated");
  for (int i = first; i <= last; i++)
    if (list[i] < 0) return ct__im_refuse("its indices are not of neighbouring dims");
  if (first < last) {
    CT_TRY(index_several(t, x, first, last - first + 1, list, &x));
    return index_finish(t, n, x);
  }
  if (t->g->value[list[first]].on & (CT_PT2_ON_INPUT | CT_PT2_ON_PARAMETER)) {
    if (first > 0 || t->layer[x].shape.batch)
      return ct__im_refuse("its indices depend on the input, and its tensor does, too");
    CT_TRY(ct__im_operand(t, list[first], &ids));
    CT_TRY(index_rows(t, x, ids, "", &x));
    return ct__im_done(t, n, x);
  }
  CT_TRY(index_table(t, x, first, list[first], &x));
  CT_TRY(index_finish(t, n, x));
out:
  return rc;
}

static int index_select(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim, ids, value;
  ct_shape_t y;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  CT_TRY(ct_pt2_tensor(t->g, n, "index", 0, &value));
  CT_TRY(ct__im_result(t, n, &y));
  if (!(t->g->value[value].on & CT_PT2_ON_INPUT)) {
    CT_TRY(index_table(t, x, dim, value, &x));
    return index_finish(t, n, x);
  }
  if (dim > 0 || t->layer[x].shape.batch)
    return ct__im_refuse("its indices depend on the input, and its tensor does, too");
  CT_TRY(ct__im_operand(t, value, &ids));
  CT_TRY(ct__im_add(t, &x, "rows", &y, 2, (int[]){x, ids}, NULL));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* gather with constant indices: the dims in which they vary and that from which is taken are
 * joined. */
static int index_gather(ct__im_t *t, const ct_pt2_node_t *n, const void *unused)
{
  int rc = CT_OK, x, dim, value, first, last;
  ct_shape_t shape;
  const double *data;
  (void)unused;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dim", s.ndim, &dim));
  CT_TRY(ct_pt2_tensor(t->g, n, "index", 0, &value));
  if (ct__im_is(t, x, "expand") && s.ndim == 2 && dim == 1 &&
      !t->layer[t->layer[x].in[0]].shape.batch) {
    ct_shape_t flat = ct_shape(1, s.dim[1]);
    int ids;
    CT_TRY(ct__im_operand(t, value, &ids));
    CT_TRY(ct__im_reshape(t, t->layer[x].in[0], &flat, &x));
    CT_TRY(index_rows(t, x, ids, "", &x));
    return ct__im_done(t, n, x);
  }
  CT_TRY(ct__im_numbers(t, value, &shape, &data));
  first = last = dim;
  for (int i = 0; i < shape.ndim; i++) {
    if (shape.dim[i] == 1) continue;
    first = i < first ? i : first;
    last = i > last ? i : last;
  }
  ct_shape_t block = ct_shape(1, 1);
  block.ndim = last - first + 1;
  for (int i = first; i <= last; i++) {
    block.dim[i - first] = shape.dim[i] == 1 && i != dim ? s.dim[i] : shape.dim[i];
    if (i != dim && shape.dim[i] != 1 && shape.dim[i] != s.dim[i])
      return ct__im_refuse("its indices are fewer than its elements in dim %d", i);
  }
  for (int i = 0; i < shape.ndim; i++)
    if ((i < first || i > last) && s.dim[i] != t->g->value[value].dim[i].n)
      return ct__im_refuse("its indices are fewer than its elements in dim %d", i);
  ct_shape_t part = shape;
  part.ndim = block.ndim;
  memmove(part.dim, shape.dim + first, (size_t)part.ndim * sizeof *part.dim);
  int64_t count = ct_shape_count(&block), *index = ct__im_alloc(t, count, sizeof *index);
  if (!index) return CT_ERR_NOMEM;
  for (int64_t k = 0; k < count; k++) {
    int64_t rest = k, stride = 1, v = (int64_t)index_at(&part, data, &block, k);
    for (int i = last; i >= first; i--) {
      int64_t c = rest % block.dim[i - first];
      rest /= block.dim[i - first];
      index[k] += (i == dim ? v + (v < 0 ? s.dim[i] : 0) : c) * stride;
      stride *= s.dim[i];
    }
  }
  CT_TRY(index_join(t, x, first, last - first + 1, &x));
  const ct_shape_t joined = t->layer[x].shape;
  CT_TRY(ct__im_take(t, x, first, count, index, &x));
  ct_shape_t y = index_spread(&joined, first, &block);
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(index_finish(t, n, x));
out:
  return rc;
}

/* Windows along a dim: size elements every step, as a last dim. */
static int index_unfold(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, dim, perm[CT_MAX_DIMS];
  int64_t size, step;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_dim(t, n, "dimension", s.ndim, &dim));
  CT_TRY(ct_pt2_int(t->g, n, "size", &size));
  CT_TRY(ct_pt2_int(t->g, n, "step", &step));
  if (s.ndim == CT_MAX_DIMS) return ct__im_refuse("of a tensor of %d dims", s.ndim);
  int64_t windows = (s.dim[dim] - size) / step + 1;
  int64_t *index = ct__im_alloc(t, windows * size, sizeof *index);
  if (!index) return CT_ERR_NOMEM;
  for (int64_t k = 0; k < windows * size; k++)
    index[k] = k / size * step + k % size;
  CT_TRY(ct__im_take(t, x, dim, windows * size, index, &x));
  ct_shape_t pair = ct_shape(2, windows, size);
  ct_shape_t y = index_spread(&s, dim, &pair);
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  for (int i = 0; i < y.ndim; i++)
    perm[i] = i == y.ndim - 1 ? dim + 1 : i <= dim ? i : i + 1;
  CT_TRY(ct__im_permute(t, x, perm, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* arange(N): only as an index of samples, see index_is_counter(). */
static int index_arange(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  (void)t;
  (void)n;
  (void)data;
  return ct__im_refuse("numbers the samples of the batch: its result depends on the batch size");
}

const ct__im_rule_t ct__im_indexes[] = {{"aten.embedding", index_embedding, NULL},
                                        {"aten.index", index_tensor, NULL},
                                        {"aten.index_select", index_select, NULL},
                                        {"aten.gather", index_gather, NULL},
                                        {"aten.unfold", index_unfold, NULL},
                                        {"aten.arange", index_arange, NULL},
                                        {NULL, NULL, NULL}};
