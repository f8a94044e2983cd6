/* ONNX nodes of ops that move elements: reshapes, maps of indices, rows of tables.  A map becomes,
 * per dim of x, a Slice, a Pad, or a Gather with constant indices, then a Transpose and an
 * Expand. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "onnx/onnx.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

/* A map being translated. */
typedef struct moving {
  ct__onnx_t *o;
  int id;
  const ct_op_desc_t *d;
  int n, m; /* dims of x and y that the map is about */
  const int64_t *x, *y;
  char now[CT__ONNX_NAME]; /* output of the last node */
  int steps;
} moving_t;

/* Returns the name of a constant of the next node. */
static const char *move_ints(moving_t *v, const char *what, int ndim, const int64_t *dim,
                             const int64_t *values)
{
  char word[48];
  snprintf(word, sizeof word, "%s%d", what, v->steps);
  return ct__onnx_constant(v->o, v->id, word, CT__ONNX_INT64, ndim, dim, values);
}

static const char *move_list(moving_t *v, const char *what, int64_t n, const int64_t *values)
{
  return move_ints(v, what, 1, &n, values);
}

/* Starts a node that reads the last output, then up to four tensors. */
static void move_node(moving_t *v, const char *op, const char *const in[4])
{
  char word[32];
  snprintf(word, sizeof word, "step%d", v->steps++);
  const char *out = ct__onnx_name(v->o, v->id, word);
  ct__onnx_node(v->o, op, OUT(out), IN(v->now, in[0], in[1], in[2], in[3]));
  snprintf(v->now, sizeof v->now, "%s", out);
}
#define WITH(...)        \
  (const char *const[4]) \
  {                      \
    __VA_ARGS__          \
  }

static void move_reshape(moving_t *v, int n, const int64_t *dim, unsigned batch)
{
  int64_t size[CT_MAX_DIMS];
  for (int i = 0; i < n; i++)
    size[i] = batch >> i & 1 ? -1 : dim[i];
  move_node(v, "Reshape", WITH(move_list(v, "shape", n, size)));
}

static void move_slice(moving_t *v, int64_t s, int64_t start, int64_t step, int64_t size)
{
  int64_t end = start + step * size;
  if (end < 0) end = INT64_MIN / 2; /* -1 would be the last index */
  const char *starts = move_list(v, "starts", 1, &start), *ends = move_list(v, "ends", 1, &end);
  const char *axes = move_list(v, "axes", 1, &s), *steps = move_list(v, "steps", 1, &step);
  move_node(v, "Slice", WITH(starts, ends, axes, steps));
}

static void move_pad(moving_t *v, int s, int64_t before, int64_t after, int edge, int dims)
{
  static const char *const modes[] = {"constant", "reflect", "edge"};
  int64_t pads[2 * CT_MAX_DIMS + 2] = {0};
  char word[32];
  pads[s] = before;
  pads[dims + s] = after;
  const char *list = move_list(v, "pads", 2 * dims, pads);
  snprintf(word, sizeof word, "value%d", v->steps);
  const char *value =
      edge == CT_EDGE_VALUE ? ct__onnx_scalar(v->o, v->id, word, v->d->u.strided.value) : NULL;
  move_node(v, "Pad", WITH(list, value));
  ct__onnx_text(v->o, "mode", modes[edge]);
}

/* Returns the place of index i in a dim of n elements; n: outside, where the constant follows. */
static int64_t move_place(int edge, int64_t i, int64_t n)
{
  int64_t period = edge == CT_EDGE_REFLECT && n > 1 ? 2 * (n - 1) : n;
  if (i >= 0 && i < n) return i;
  if (edge == CT_EDGE_VALUE) return n;
  if (edge == CT_EDGE_REPLICATE) return i < 0 ? 0 : n - 1;
  i = (i % period + period) % period;
  return i < n ? i : period - i;
}

/* Gathers dim s by the indices of the dims of y that read it; they replace it. */
static void move_gather(moving_t *v, int s, int readers, const int *reader, int dims)
{
  int outside = 0;
  int64_t count = 1, shape[CT_MAX_DIMS] = {0};
  for (int k = 0; k < readers; k++)
    count *= shape[k] = v->y[reader[k]];
  int64_t *index = ct_mem_array(count, sizeof *index, "indices");
  if (!index && v->o->rc == CT_OK) v->o->rc = CT_ERR_NOMEM;
  if (!index) return;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = v->d->u.strided.start[s], rest = i;
    for (int k = readers - 1; k >= 0; rest /= shape[k--])
      at += v->d->u.strided.step[reader[k]] * (rest % shape[k]);
    index[i] = move_place(v->d->u.strided.edge[s], at, v->x[s]);
    outside |= index[i] == v->x[s];
  }
  if (outside) move_pad(v, s, 0, 1, CT_EDGE_VALUE, dims);
  move_node(v, "Gather", WITH(move_ints(v, "indices", readers, shape, index)));
  ct__onnx_int(v->o, "axis", s);
  ct_mem_free(index);
}

/* Moves along dim s of x, which is dim s of the `dims` so far; returns the number of dims after
 * it. */
static int move_dim(moving_t *v, int s, int dims)
{
  int reader[CT_MAX_DIMS], readers = 0, edge = v->d->u.strided.edge[s];
  for (int i = 0; i < v->m; i++)
    if (v->d->u.strided.from[i] == s) reader[readers++] = i;
  int64_t n = v->x[s], start = v->d->u.strided.start[s];
  int64_t step = readers ? v->d->u.strided.step[reader[0]] : 1;
  int64_t size = readers ? v->y[reader[0]] : 1, last = start + step * (size - 1);
  int inside = start >= 0 && start < n && last >= 0 && last < n;
  if (readers == 1 && step == 1 && start == 0 && size == n) return dims;
  if (readers == 1 && inside && step)
    move_slice(v, s, start, step, size);
  else if (readers == 1 && step == 1 && edge != CT_EDGE_WRAP && start <= 0 && last >= n - 1)
    move_pad(v, s, -start, last - (n - 1), edge, dims);
  else
    move_gather(v, s, readers, reader, dims);
  return dims + readers - 1;
}

static void move_transpose(moving_t *v)
{
  int64_t perm[CT_MAX_DIMS];
  int n = 0, moved = 0, at[CT_MAX_DIMS] = {0}, place = 0;
  for (int s = 0; s < v->n; s++)
    for (int i = 0; i < v->m; i++)
      if (v->d->u.strided.from[i] == s) at[i] = place++;
  for (int i = 0; i < v->m; i++)
    if (v->d->u.strided.from[i] >= 0) perm[n++] = at[i];
  for (int i = 0; i < n; i++)
    moved |= perm[i] != i;
  if (!moved) return;
  move_node(v, "Transpose", WITH(NULL));
  ct__onnx_ints(v->o, "perm", n, perm);
}

/* Returns a shape whose dim `at` grows with the batch: `size` times the batch size of the network's
 * input. */
static const char *move_batch_shape(moving_t *v, int at, int n, const int64_t *size)
{
  char word[32];
  snprintf(word, sizeof word, "batch%d", v->steps);
  const char *batch = ct__onnx_name(v->o, v->id, word);
  ct__onnx_node(v->o, "Shape", OUT(batch), IN(v->o->input));
  ct__onnx_int(v->o, "start", 0);
  ct__onnx_int(v->o, "end", 1);
  const char *factor = move_list(v, "factor", 1, &size[at]);
  snprintf(word, sizeof word, "rows%d", v->steps);
  const char *rows = ct__onnx_name(v->o, v->id, word);
  ct__onnx_node(v->o, "Mul", OUT(rows), IN(batch, factor));
  snprintf(word, sizeof word, "wide%d", v->steps);
  const char *wide = ct__onnx_name(v->o, v->id, word), *parts[4] = {NULL};
  int k = 0;
  if (at > 0) parts[k++] = move_list(v, "before", at, size);
  parts[k++] = rows;
  if (at < n - 1) parts[k++] = move_list(v, "after", n - 1 - at, size + at + 1);
  ct__onnx_node(v->o, "Concat", OUT(wide), parts);
  ct__onnx_int(v->o, "axis", 0);
  return wide;
}

/* Adds the dims that read none, and repeats them, and the dims that grow with the batch though what
 * they read does not. */
static void move_expand(moving_t *v, unsigned batch_in, unsigned batch)
{
  int64_t axes[CT_MAX_DIMS], size[CT_MAX_DIMS];
  int n = 0, wide = 0, grows = -1;
  for (int i = 0; i < v->m; i++) {
    int from = v->d->u.strided.from[i], none = from < 0;
    int more = batch >> i & 1 && (none || !(batch_in >> from & 1));
    size[i] = none || more ? v->y[i] : 1;
    if (none) axes[n++] = i;
    if (more) grows = i;
    wide |= size[i] > 1;
  }
  if (n) move_node(v, "Unsqueeze", WITH(move_list(v, "axes", n, axes)));
  if (grows >= 0)
    move_node(v, "Expand", WITH(move_batch_shape(v, grows, v->m, size)));
  else if (wide)
    move_node(v, "Expand", WITH(move_list(v, "shape", v->m, size)));
}

void ct__onnx_strided(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *y)
{
  const ct_layer_t *l = &o->g->layer[id];
  int in = l->in[0];
  unsigned batch = in < 0 ? 1 : o->g->layer[in].out.batch;
  int wide = d->u.strided.x_view_dims, high = d->u.strided.y_view_dims;
  moving_t v = {
      .o = o, .id = id, .d = d, .n = wide ? wide : d->x.ndim, .m = high ? high : d->y.ndim};
  v.x = wide ? d->u.strided.x_view : d->x.dim;
  v.y = high ? d->u.strided.y_view : d->y.dim;
  snprintf(v.now, sizeof v.now, "%s", x);
  int dims = v.n;
  if (wide) move_reshape(&v, wide, v.x, batch);
  for (int s = v.n - 1; s >= 0; s--)
    dims = move_dim(&v, s, dims);
  move_transpose(&v);
  move_expand(&v, batch, l->out.batch);
  if (high) move_reshape(&v, d->y.ndim, d->y.dim, l->out.batch);
  ct__onnx_node(o, "Identity", OUT(y), IN(v.now));
}

void ct__onnx_reshape(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *y)
{
  int64_t dims[CT_MAX_DIMS] = {0};
  const ct_layer_t *l = &o->g->layer[id];
  unsigned batch = l->in[0] < 0 ? 1 : o->g->layer[l->in[0]].out.batch;
  /* 0 copies the input's dim: the batch size */
  int same = batch == 1 && l->out.batch == 1 && d->x.dim[0] == d->y.dim[0];
  for (int i = 0; i < d->y.ndim; i++)
    dims[i] = l->out.batch >> i & 1 ? (same ? 0 : -1) : d->y.dim[i];
  const char *shape = ct__onnx_const_ints(o, id, "shape", 1, d->y.ndim, dims);
  ct__onnx_node(o, "Reshape", OUT(y), IN(x, shape));
}

void ct__onnx_rows(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *table,
                   const char *y)
{
  const char *whole = ct__onnx_name(o, id, "indices");
  ct__onnx_node(o, "Cast", OUT(whole), IN(x));
  ct__onnx_int(o, "to", CT__ONNX_INT64);
  ct__onnx_node(o, "Gather", OUT(y), IN(d->x2.ndim ? table : ct__onnx_param(o, id, 0), whole));
  ct__onnx_int(o, "axis", 0);
}
