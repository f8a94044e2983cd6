/* Constants: ops that move elements.  The elements of a result are found by tables: for each dim
 * and each index along it, the table has an offset; the sum of the offsets is the place of the
 * element in the argument.  An entry -1 means that the element is outside the argument. */
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/fold.h"

enum { OUTSIDE = -1 };

/* The tables of a result. */
typedef struct tables {
  int64_t *list;             /* all tables */
  int64_t *of[CT__PT2_DIMS]; /* of each dim of the result */
  int64_t base;              /* offset of the first element */
} tables_t;

static int tables_new(tables_t *t, const ct__array_t *shape)
{
  int64_t n = 0, at = 0;
  memset(t, 0, sizeof *t);
  for (int i = 0; i < shape->ndim; i++)
    n += shape->dim[i];
  t->list = ct_mem_array(n + 1, sizeof *t->list, "a table of offsets");
  if (!t->list) return 0;
  for (int i = 0; i < shape->ndim; i++) {
    t->of[i] = t->list + at;
    at += shape->dim[i];
  }
  return 1;
}

/* Steps of a regular distance. */
static void tables_steps(tables_t *t, const ct__array_t *shape, int dim, int64_t step)
{
  for (int64_t i = 0; i < shape->dim[dim]; i++)
    t->of[dim][i] = i * step;
}

/* Copies the elements that the tables name; those outside become `fill`. */
static void tables_read(const tables_t *t, const ct__array_t *shape, const double *x, double fill,
                        double *y)
{
  ct__walk_t w;
  ct__walk_start(&w, shape);
  for (int64_t i = 0; i < shape->count; i++, ct__walk_next(&w)) {
    int64_t at = t->base;
    int outside = 0;
    for (int d = 0; d < shape->ndim; d++) {
      outside |= t->of[d][w.at[d]] == OUTSIDE;
      at += t->of[d][w.at[d]];
    }
    y[i] = outside ? fill : x[at];
  }
}

/* Writes the elements of `from`, of the shape `shape`, to the places that the tables name. */
static void tables_write(const tables_t *t, const ct__array_t *shape, const double *from, double *y)
{
  ct__walk_t w;
  ct__walk_start(&w, shape);
  for (int64_t i = 0; i < shape->count; i++, ct__walk_next(&w)) {
    int64_t at = t->base;
    for (int d = 0; d < shape->ndim; d++)
      at += t->of[d][w.at[d]];
    y[at] = from[i];
  }
}

static int first_in(const ct__fold_t *f, ct__array_t *a)
{
  return f->node->args > 0 && ct__fold_in(f, f->node->arg[0].name, a);
}

/* ---- the same elements in another shape ---- */

/* Whether the dims n * N of two shapes lie between the same numbers of elements. */
static int same_order(const ct__array_t *a, const ct__array_t *b)
{
  int64_t x = 1, y = 1;
  int i = 0, k = 0;
  for (;; i++, k++) {
    for (; i < a->ndim && !(a->along >> i & 1); i++)
      x *= a->dim[i];
    for (; k < b->ndim && !(b->along >> k & 1); k++)
      y *= b->dim[k];
    if (x != y || (i == a->ndim) != (k == b->ndim)) return 0;
    if (i == a->ndim) return 1;
  }
}

static int run_reshape(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  (void)op;
  if (!first_in(f, &a) || a.count != f->o.count || a.type != f->o.type) return 0;
  if ((a.along || f->o.along) && !same_order(&a, &f->o)) return 0;
  memcpy(f->y, a.x, (size_t)a.count * sizeof *a.x);
  return 1;
}

/* ---- other orders of the dims ---- */

static int run_permute(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  tables_t t;
  int order[CT__PT2_DIMS];
  int64_t step[CT__PT2_DIMS];
  (void)op;
  if (!first_in(f, &a) || a.ndim != f->o.ndim || !ct__pt2_permutation(f->p, f->node, a.ndim, order))
    return 0;
  for (int i = 0; i < a.ndim; i++)
    if (a.dim[order[i]] != f->o.dim[i]) return 0;
  if (!tables_new(&t, &f->o)) return 0;
  ct__fold_steps(&a, step);
  for (int i = 0; i < a.ndim; i++)
    tables_steps(&t, &f->o, i, step[order[i]]);
  tables_read(&t, &f->o, a.x, 0, f->y);
  ct_mem_free(t.list);
  return 1;
}

/* ---- repetitions ---- */

/* expand, repeat: index i of the result is index i modulo the size of the argument. */
static int run_repeat(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  tables_t t;
  int64_t step[CT__PT2_DIMS];
  int shift;
  (void)op;
  if (!first_in(f, &a) || a.ndim > f->o.ndim || a.count == 0) return 0;
  shift = f->o.ndim - a.ndim;
  for (int i = 0; i < a.ndim; i++) {
    if (f->o.dim[shift + i] % a.dim[i] != 0) return 0;
    if ((a.along >> i & 1) != (f->o.along >> (shift + i) & 1) && a.dim[i] != 1) return 0;
    if ((a.along >> i & 1) && !(f->o.along >> (shift + i) & 1)) return 0;
  }
  if (!tables_new(&t, &f->o)) return 0;
  ct__fold_steps(&a, step);
  for (int i = 0; i < a.ndim; i++)
    for (int64_t k = 0; k < f->o.dim[shift + i]; k++)
      t.of[shift + i][k] = k % a.dim[i] * step[i];
  tables_read(&t, &f->o, a.x, 0, f->y);
  ct_mem_free(t.list);
  return 1;
}

/* ---- parts ---- */

/* A range of a dim. */
typedef struct range {
  int dim;
  int64_t from, step, n; /* n indices from, from + step, ... */
  int select;            /* 1: the dim is removed */
} range_t;

/* Python's meaning of a bound. */
static int64_t bound(int64_t x, int64_t size)
{
  if (x < 0) x = x < -size ? 0 : x + size;
  return x > size ? size : x;
}

/* The range of slice and narrow. */
static int slice_range(const ct__fold_t *f, const ct__array_t *a, range_t *r)
{
  int64_t end, length;
  r->step = 1;
  if (!ct__fold_dim(f, "dim", a->ndim, &r->dim)) return 0;
  if (!ct__fold_int(f, "start", 0, &r->from)) return 0;
  r->from = bound(r->from, a->dim[r->dim]);
  if (ct_pt2_is(f->node, "aten.narrow")) {
    if (!ct__fold_int(f, "length", 0, &length) || length < 0) return 0;
    end = length > a->dim[r->dim] ? a->dim[r->dim] : bound(r->from + length, a->dim[r->dim]);
  } else {
    if (!ct__fold_int(f, "end", INT64_MAX, &end) || !ct__fold_int(f, "step", 1, &r->step)) return 0;
    end = bound(end, a->dim[r->dim]);
  }
  if (r->step < 1) return 0;
  r->n = end > r->from ? (end - r->from - 1) / r->step + 1 : 0;
  return 1;
}

/* The range of output number f->part of split and chunk. */
static int part_range(const ct__fold_t *f, const ct__array_t *a, range_t *r)
{
  ct__array_t part = {0};
  r->step = 1;
  r->from = 0;
  if (!ct__fold_dim(f, "dim", a->ndim, &r->dim)) return 0;
  for (int k = 0; k <= f->part; k++) {
    if (k) r->from += part.dim[r->dim];
    if (f->node->out[k] < 0 || !ct__fold_shape(f->p, f->node->out[k], &part)) return 0;
    if (part.ndim != a->ndim || part.along) return 0;
  }
  r->n = part.dim[r->dim];
  return r->from + r->n <= a->dim[r->dim];
}

static int select_range(const ct__fold_t *f, const ct__array_t *a, range_t *r)
{
  int64_t index = f->part;
  if (!ct__fold_dim(f, "dim", a->ndim, &r->dim)) return 0;
  if (ct_pt2_arg(f->node, "index") && !ct__fold_int(f, "index", 0, &index)) return 0;
  if (index < 0) index += a->dim[r->dim];
  *r = (range_t){r->dim, a->along >> r->dim & 1 ? 0 : index, 1, 1, 1};
  return r->from >= 0 && r->from < a->dim[r->dim];
}

static int take_range(const ct__fold_t *f, const ct__array_t *a, range_t *r)
{
  int slice = ct_pt2_is(f->node, "aten.slice") || ct_pt2_is(f->node, "aten.narrow") ||
              ct_pt2_is(f->node, "aten.slice_scatter");
  int select = ct_pt2_is(f->node, "aten.select") || ct_pt2_is(f->node, "aten.unbind") ||
               ct_pt2_is(f->node, "aten.select_scatter");
  *r = (range_t){0};
  if (a->ndim == 0) return 0;
  int good = slice ? slice_range(f, a, r) : select ? select_range(f, a, r) : part_range(f, a, r);
  return good && (select || !(a->along >> r->dim & 1)); /* a part of n * N is not known */
}

/* Sets the tables of a range of `a`; `part` is its shape. */
static int range_tables(const ct__array_t *a, const range_t *r, const ct__array_t *part,
                        tables_t *t)
{
  int64_t step[CT__PT2_DIMS];
  int k = 0;
  if (part->ndim != a->ndim - r->select || !tables_new(t, part)) return 0;
  ct__fold_steps(a, step);
  t->base = r->from * step[r->dim];
  for (int i = 0; i < a->ndim; i++) {
    if (r->select && i == r->dim) continue;
    int64_t want = i == r->dim ? r->n : a->dim[i];
    if (part->dim[k] != want || (part->along >> k & 1) != (a->along >> i & 1)) {
      ct_mem_free(t->list);
      return 0;
    }
    tables_steps(t, part, k++, i == r->dim ? r->step * step[i] : step[i]);
  }
  return 1;
}

static int run_part(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  range_t r;
  tables_t t;
  (void)op;
  if (!first_in(f, &a) || !take_range(f, &a, &r) || !range_tables(&a, &r, &f->o, &t)) return 0;
  tables_read(&t, &f->o, a.x, 0, f->y);
  ct_mem_free(t.list);
  return 1;
}

static int run_scatter(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a, src;
  range_t r;
  tables_t t;
  (void)op;
  if (!ct__fold_in(f, "self", &a) || !ct__fold_in(f, "src", &src) || a.count != f->o.count ||
      !take_range(f, &a, &r) || !range_tables(&a, &r, &src, &t))
    return 0;
  memcpy(f->y, a.x, (size_t)a.count * sizeof *a.x);
  tables_write(&t, &src, src.x, f->y);
  ct_mem_free(t.list);
  return 1;
}

/* ---- other orders of the indices ---- */

static int same_dims(const ct__array_t *a, const ct__array_t *b)
{
  return a->ndim == b->ndim && a->count == b->count &&
         memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* flip, roll: sets the tables of the dims that the argument names. */
static int order_dims(const ct__fold_t *f, const ct__array_t *a, const int64_t *step, tables_t *t)
{
  int flip = ct_pt2_is(f->node, "aten.flip");
  uint64_t seen = 0;
  const ct_pt2_arg_t *dims = ct_pt2_arg(f->node, "dims"), *shifts = ct_pt2_arg(f->node, "shifts");
  if (!dims || dims->kind != CT_PT2_INTS) return 0;
  if (!flip && (!shifts || shifts->kind != CT_PT2_INTS || shifts->n != dims->n)) return 0;
  for (int k = 0; k < dims->n; k++) {
    int64_t d = dims->dim[k].n + (dims->dim[k].n < 0 ? a->ndim : 0);
    if (d < 0 || d >= a->ndim || seen >> d & 1) return 0; /* roll adds the shifts of a dim */
    seen |= (uint64_t)1 << d;
    for (int64_t i = 0, n = a->dim[d]; i < n; i++) {
      int64_t from = flip ? n - 1 - i : (i - shifts->dim[k].n % n + n) % n;
      t->of[d][i] = from * step[d];
    }
    if (!flip && shifts->dim[k].batch) return 0;
  }
  return 1;
}

static int run_order(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  tables_t t;
  int64_t step[CT__PT2_DIMS];
  int good;
  (void)op;
  if (!first_in(f, &a) || !same_dims(&a, &f->o)) return 0;
  if (!tables_new(&t, &f->o)) return 0;
  ct__fold_steps(&a, step);
  for (int i = 0; i < a.ndim; i++)
    tables_steps(&t, &f->o, i, step[i]);
  good = order_dims(f, &a, step, &t);
  if (good) tables_read(&t, &f->o, a.x, 0, f->y);
  ct_mem_free(t.list);
  return good;
}

/* ---- padding with a number ---- */

static int pad_is_small(const ct_pt2_arg_t *pad)
{
  for (int i = 0; i < pad->n; i++)
    if (pad->dim[i].batch || pad->dim[i].n > INT32_MAX || pad->dim[i].n < -INT32_MAX) return 0;
  return 1;
}

static int run_pad(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  tables_t t;
  int64_t step[CT__PT2_DIMS];
  double value = 0;
  const ct_pt2_arg_t *pad = ct_pt2_arg(f->node, "pad"), *mode = ct_pt2_arg(f->node, "mode");
  (void)op;
  if (mode && (mode->kind != CT_PT2_STRING || strcmp(mode->text, "constant") != 0)) return 0;
  if (!ct_pt2_is_none(f->node, "value") && !ct__fold_number(f, "value", &value)) return 0;
  if (!first_in(f, &a) || a.ndim != f->o.ndim || !pad || pad->kind != CT_PT2_INTS || pad->n % 2 ||
      pad->n > 2 * a.ndim || !pad_is_small(pad) || !ct__fold_round(f->o.type, value, &value))
    return 0;
  if (!tables_new(&t, &f->o)) return 0;
  ct__fold_steps(&a, step);
  for (int i = 0; i < a.ndim; i++) {
    int k = 2 * (a.ndim - 1 - i);
    int64_t before = k < pad->n ? pad->dim[k].n : 0;
    for (int64_t j = 0; j < f->o.dim[i]; j++)
      t.of[i][j] = j < before || j - before >= a.dim[i] ? OUTSIDE : (j - before) * step[i];
  }
  tables_read(&t, &f->o, a.x, value, f->y);
  ct_mem_free(t.list);
  return 1;
}

/* ---- triangles ---- */

static int run_triangle(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  ct__walk_t w;
  int64_t diagonal;
  int lower = ct_pt2_is(f->node, "aten.tril"), n = f->o.ndim;
  (void)op;
  if (!first_in(f, &a) || a.count != f->o.count || n < 2 || f->o.along >> (n - 2) ||
      !ct__fold_int(f, "diagonal", 0, &diagonal))
    return 0;
  if (diagonal > INT64_MAX / 4 || diagonal < -INT64_MAX / 4) return 0;
  ct__walk_start(&w, &f->o);
  for (int64_t i = 0; i < a.count; i++, ct__walk_next(&w)) {
    int64_t over = w.at[n - 1] - w.at[n - 2] - diagonal; /* columns right of the diagonal */
    f->y[i] = (lower ? over <= 0 : over >= 0) ? a.x[i] : 0;
  }
  return 1;
}

#define VIEW(name, function)                       \
  {                                                \
    .op = "aten." name, .run = function, .view = 1 \
  }
#define ALL(name, function)                        \
  {                                                \
    .op = "aten." name, .run = function, .view = 2 \
  }

const ct__fold_op_t ct__fold_shapes[] = {
    ALL("view", run_reshape),
    ALL("reshape", run_reshape),
    ALL("flatten", run_reshape),
    ALL("unflatten", run_reshape),
    ALL("squeeze", run_reshape),
    ALL("unsqueeze", run_reshape),
    ALL("view_as", run_reshape),
    ALL("reshape_as", run_reshape),
    ALL("ravel", run_reshape),
    ALL("_unsafe_view", run_reshape),
    ALL("contiguous", run_reshape),
    ALL("clone", run_reshape),
    ALL("alias", run_reshape),
    ALL("detach", run_reshape),
    ALL("lift_fresh_copy", run_reshape),
    ALL("permute", run_permute),
    ALL("transpose", run_permute),
    ALL("t", run_permute),
    ALL("mT", run_permute),
    ALL("numpy_T", run_permute),
    ALL("swapaxes", run_permute),
    ALL("swapdims", run_permute),
    ALL("expand", run_repeat),
    ALL("expand_as", run_repeat),
    ALL("broadcast_to", run_repeat),
    ALL("repeat", run_repeat),
    ALL("tile", run_repeat),
    VIEW("slice", run_part),
    VIEW("narrow", run_part),
    VIEW("select", run_part),
    VIEW("unbind", run_part),
    VIEW("split", run_part),
    VIEW("split_with_sizes", run_part),
    VIEW("chunk", run_part),
    VIEW("flip", run_order),
    VIEW("roll", run_order),
    {.op = "aten.slice_scatter", .run = run_scatter},
    {.op = "aten.select_scatter", .run = run_scatter},
    {.op = "aten.pad", .run = run_pad},
    {.op = "aten.constant_pad_nd", .run = run_pad},
    {.op = "aten.tril", .run = run_triangle},
    {.op = "aten.triu", .run = run_triangle},
    {.op = NULL},
};
