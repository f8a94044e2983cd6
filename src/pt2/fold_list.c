/* Constants: ops that join arrays, choose elements by indices, or combine the elements of a dim. */
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/fold.h"

/* The number of elements before and after a dim. */
static void around(const ct__array_t *a, int dim, int64_t *before, int64_t *after)
{
  *before = *after = 1;
  for (int i = 0; i < a->ndim; i++)
    *(i < dim ? before : after) *= i == dim ? 1 : a->dim[i];
}

/* ---- joining ---- */

/* cat and stack: a stacked array is one with size 1 in the new dim. */
static int run_join(ct__fold_t *f, const ct__fold_op_t *op)
{
  int stack = ct_pt2_is(f->node, "aten.stack"), dim;
  const ct_pt2_arg_t *list = ct_pt2_arg(f->node, "tensors");
  int64_t before, after, at = 0;
  ct__array_t a;
  (void)op;
  if (!list || list->kind != CT_PT2_TENSORS || !ct__fold_dim(f, "dim", f->o.ndim, &dim)) return 0;
  if (f->o.along >> dim & 1) return 0;
  around(&f->o, dim, &before, &after);
  for (int k = 0; k < list->n; k++) {
    int64_t n = 1;
    if (!ct__fold_in_list(f, "tensors", k, &a) || a.ndim != f->o.ndim - stack) return 0;
    for (int i = 0; i < a.ndim; i++) {
      int to = i + (stack && i >= dim);
      if (to == dim)
        n = a.dim[i];
      else if (a.dim[i] != f->o.dim[to])
        return 0;
    }
    if (at + n > f->o.dim[dim]) return 0;
    for (int64_t b = 0; b < before; b++)
      for (int64_t i = 0; i < n * after; i++)
        if (!ct__fold_round(f->o.type, a.x[b * n * after + i],
                            &f->y[(b * f->o.dim[dim] + at) * after + i]))
          return 0;
    at += n;
  }
  return at == f->o.dim[dim];
}

/* Output k of meshgrid is argument k along dim k ("ij"). */
static int run_meshgrid(ct__fold_t *f, const ct__fold_op_t *op)
{
  const ct_pt2_arg_t *order = ct_pt2_arg(f->node, "indexing");
  int dim = f->part;
  int64_t before, after;
  ct__array_t a;
  (void)op;
  if (order && order->kind == CT_PT2_STRING && strcmp(order->text, "xy") == 0 && dim < 2)
    dim = 1 - dim;
  if (!ct__fold_in_list(f, "tensors", f->part, &a) || f->o.ndim < 2 || f->part >= f->o.ndim ||
      a.count != f->o.dim[dim] || a.type != f->o.type)
    return 0;
  around(&f->o, dim, &before, &after);
  for (int64_t i = 0; i < f->o.count; i++)
    f->y[i] = a.x[i / after % a.count];
  return 1;
}

/* ---- indices ---- */

/* An index among those of index.Tensor. */
typedef struct indexed {
  ct__array_t a;
  int64_t along[CT__PT2_DIMS]; /* distance of its neighbours */
  int64_t step, n;             /* of the dim that it chooses from */
} indexed_t;

/* The place in the argument that the indices name; -1: out of range. */
static int64_t index_place(const indexed_t *list, int n, const ct__walk_t *w, int first, int ndim)
{
  int64_t place = 0;
  for (int k = 0; k < n; k++) {
    int64_t at = 0;
    const ct__array_t *a = &list[k].a;
    for (int i = 0; i < a->ndim; i++)
      at += w->at[first + ndim - a->ndim + i] * list[k].along[i];
    int64_t i = (int64_t)a->x[at];
    if (i < 0) i += list[k].n;
    if (i < 0 || i >= list[k].n) return -1;
    place += i * list[k].step;
  }
  return place;
}

/* The indices of index.Tensor, and where their dims go in the result.  Dims that are not indexed
 * stay in place if the indexed ones are neighbours; else they follow. */
typedef struct index_plan {
  indexed_t list[CT__PT2_DIMS];
  int n, first, ndim;         /* indices; place and number of their dims in the result */
  int64_t step[CT__PT2_DIMS]; /* of each dim of the result that is not indexed */
} index_plan_t;

/* Whether index k, which is the place in the batch, chooses from the batch: each sample chooses its
 * own element then, and all are equal. */
static int by_position(const ct__fold_t *f, int k)
{
  const ct_pt2_arg_t *self = ct_pt2_arg(f->node, "self");
  const ct_pt2_dim_t *dim = &f->p->value[self->tensor[0]].dim[k];
  return dim->batch == 1 && dim->n == 1;
}

/* Checks the dims of the indices against those of the result. */
static int index_shape(const ct__fold_t *f, const index_plan_t *plan)
{
  uint64_t along = 0;
  for (int k = 0; k < plan->n; k++) {
    const ct__array_t *x = &plan->list[k].a;
    for (int i = 0; i < x->ndim; i++) {
      int to = plan->first + plan->ndim - x->ndim + i;
      if (x->dim[i] != 1 && x->dim[i] != f->o.dim[to]) return 0;
      along |= (x->along >> i & 1) << to;
    }
  }
  for (int i = plan->first; i < plan->first + plan->ndim; i++)
    if ((along >> i & 1) != (f->o.along >> i & 1)) return 0;
  return 1;
}

static int index_prepare(const ct__fold_t *f, const ct__array_t *a, index_plan_t *plan)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, "indices");
  int64_t step[CT__PT2_DIMS];
  int begin = -1, end = -1, used[CT__PT2_DIMS] = {0}, to = 0;
  if (!arg || arg->kind != CT_PT2_TENSORS || arg->n > a->ndim) return 0;
  ct__fold_steps(a, step);
  for (int k = 0; k < arg->n; k++) {
    indexed_t *x = &plan->list[plan->n];
    if (arg->tensor[k] < 0) continue;
    if (!ct__fold_in_list(f, "indices", k, &x->a) || x->a.type == CT_ELEM_BOOL ||
        ct__fold_is_float(x->a.type))
      return 0;
    if (f->p->more[arg->tensor[k]].position ? !by_position(f, k) : (int)(a->along >> k & 1))
      return 0;
    ct__fold_steps(&x->a, x->along);
    x->step = step[k];
    x->n = a->dim[k];
    used[k] = 1;
    plan->n++;
    if (x->a.ndim > plan->ndim) plan->ndim = x->a.ndim;
    if (begin < 0) begin = k;
    end = k + 1;
  }
  if (plan->n == 0) return 0;
  plan->first = end - begin == plan->n ? begin : 0;
  if (a->ndim - plan->n + plan->ndim != f->o.ndim) return 0;
  for (int k = 0; k < a->ndim; k++) {
    if (used[k]) continue;
    if (to == plan->first) to += plan->ndim;
    if (f->o.dim[to] != a->dim[k] || (f->o.along >> to & 1) != (a->along >> k & 1)) return 0;
    plan->step[to++] = step[k];
  }
  return index_shape(f, plan);
}

static int run_index(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  ct__walk_t w;
  (void)op;
  if (!ct__fold_in(f, "self", &a)) return 0;
  if (f->p->more[ct_pt2_arg(f->node, "self")->tensor[0]].position) return 0;
  index_plan_t *plan = ct_mem_alloc(sizeof *plan, "indices");
  int good = plan && index_prepare(f, &a, plan);
  ct__walk_start(&w, &f->o);
  for (int64_t i = 0; i < f->o.count && good; i++, ct__walk_next(&w)) {
    int64_t at = index_place(plan->list, plan->n, &w, plan->first, plan->ndim);
    good = at >= 0;
    for (int k = 0; k < f->o.ndim && good; k++)
      if (k < plan->first || k >= plan->first + plan->ndim) at += w.at[k] * plan->step[k];
    if (good) f->y[i] = a.x[at];
  }
  ct_mem_free(plan);
  return good;
}

/* gather: along one dim, the index has the place. */
static int run_gather(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a, index;
  ct__walk_t w;
  int64_t step[CT__PT2_DIMS];
  int dim;
  (void)op;
  if (!ct__fold_in(f, "self", &a) || !ct__fold_in(f, "index", &index) || a.ndim == 0 ||
      a.ndim != index.ndim || index.count != f->o.count || index.ndim != f->o.ndim ||
      !ct__fold_dim(f, "dim", a.ndim, &dim) || a.along >> dim & 1)
    return 0;
  for (int i = 0; i < a.ndim; i++)
    if (i != dim && (index.dim[i] > a.dim[i] || (a.along >> i & 1) != (index.along >> i & 1)))
      return 0;
  ct__fold_steps(&a, step);
  ct__walk_start(&w, &index);
  for (int64_t i = 0; i < index.count; i++, ct__walk_next(&w)) {
    int64_t at = (int64_t)index.x[i];
    if (at < 0 || at >= a.dim[dim]) return 0;
    at *= step[dim];
    for (int k = 0; k < a.ndim; k++)
      if (k != dim) at += w.at[k] * step[k];
    f->y[i] = a.x[at];
  }
  return 1;
}

/* index_select and embedding: rows of a dim. */
static int run_rows(ct__fold_t *f, const ct__fold_op_t *op)
{
  int embedding = ct_pt2_is(f->node, "aten.embedding"), dim = 0;
  int64_t before, after;
  ct__array_t a, index;
  (void)op;
  if (!ct__fold_in(f, embedding ? "weight" : "self", &a) || a.ndim == 0 || a.along ||
      !ct__fold_in(f, embedding ? "indices" : "index", &index) || f->o.along)
    return 0;
  if (!embedding && !ct__fold_dim(f, "dim", a.ndim, &dim)) return 0;
  around(&a, dim, &before, &after);
  if (f->o.count != before * index.count * after) return 0;
  for (int64_t b = 0; b < before; b++)
    for (int64_t i = 0; i < index.count; i++) {
      int64_t row = (int64_t)index.x[i];
      if (row < 0 || row >= a.dim[dim]) return 0;
      memcpy(f->y + (b * index.count + i) * after, a.x + (b * a.dim[dim] + row) * after,
             (size_t)after * sizeof *f->y);
    }
  return 1;
}

/* ---- along a dim ---- */

static int run_cumulate(ct__fold_t *f, const ct__fold_op_t *op)
{
  int dim;
  int64_t before, after;
  ct__array_t a;
  if (!ct__fold_in(f, "self", &a) || a.count != f->o.count || a.ndim == 0 ||
      !ct__fold_dim(f, "dim", a.ndim, &dim) || a.along >> dim & 1)
    return 0;
  around(&a, dim, &before, &after);
  for (int64_t b = 0; b < before; b++)
    for (int64_t k = 0; k < after; k++) {
      double total = op->one(0);
      for (int64_t i = 0; i < a.dim[dim]; i++) {
        int64_t at = (b * a.dim[dim] + i) * after + k;
        total = op->two(total, a.x[at]);
        if (!ct__fold_round(f->o.type, total, &f->y[at])) return 0;
      }
    }
  return 1;
}

/* diff: of neighbours along a dim, with other arrays before and after. */
static int run_diff(ct__fold_t *f, const ct__fold_op_t *op)
{
  static const char *const names[] = {"prepend", "self", "append"};
  ct__array_t a[3] = {{0}};
  int64_t n, before, after, total = 0;
  int dim;
  (void)op;
  if (!ct__fold_int(f, "n", 1, &n) || n != 1 || !ct__fold_dim(f, "dim", f->o.ndim, &dim) ||
      f->o.along >> dim & 1)
    return 0;
  around(&f->o, dim, &before, &after);
  for (int k = 0; k < 3; k++) {
    if (k != 1 && ct_pt2_is_none(f->node, names[k])) continue;
    if (!ct__fold_in(f, names[k], &a[k]) || a[k].ndim != f->o.ndim) return 0;
    total += a[k].dim[dim];
    if (a[k].count != before * a[k].dim[dim] * after) return 0;
  }
  if (f->o.dim[dim] != total - 1) return 0;
  for (int64_t i = 0; i < f->o.count; i++) {
    int64_t b = i / after / f->o.dim[dim];
    double x[2];
    for (int side = 0; side < 2; side++) {
      int64_t at = i / after % f->o.dim[dim] + side;
      int k = 0;
      for (; at >= a[k].dim[dim]; k++)
        at -= a[k].dim[dim];
      x[side] = a[k].x[(b * a[k].dim[dim] + at) * after + i % after];
    }
    if (!ct__fold_round(f->o.type, x[1] - x[0], &f->y[i])) return 0;
  }
  return 1;
}

/* Sets the dims that a reduction removes: bits. */
static int reduced_dims(const ct__fold_t *f, const ct__array_t *a, uint64_t *dims)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, "dim");
  uint64_t all = a->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << a->ndim) - 1;
  *dims = 0;
  if (arg && arg->kind != CT_PT2_NONE && arg->kind != CT_PT2_INT && arg->kind != CT_PT2_INTS)
    return 0;
  for (int k = 0; arg && arg->dim && k < arg->n; k++) {
    int64_t d = arg->dim[k].n + (arg->dim[k].n < 0 ? a->ndim : 0);
    if (d < 0 || d >= a->ndim || arg->dim[k].batch) return 0;
    *dims |= (uint64_t)1 << d;
  }
  if (!*dims) *dims = all;
  return (a->along & *dims) == 0;
}

static int run_reduce(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a, kept;
  ct__walk_t w;
  uint64_t dims;
  int mean = ct_pt2_is(f->node, "aten.mean");
  if (!ct__fold_in(f, "self", &a) || !reduced_dims(f, &a, &dims) || f->node->outs != 1) return 0;
  kept = a;
  kept.count = 1;
  for (int i = 0; i < a.ndim; i++) {
    if (dims >> i & 1) kept.dim[i] = 1;
    kept.count *= kept.dim[i];
  }
  if (kept.count != f->o.count || a.count == 0) return 0;
  ct__walk_start(&w, &a);
  ct__walk_broadcast(&w, 0, &kept);
  for (int64_t i = 0; i < kept.count; i++)
    f->y[i] = op->one(0);
  for (int64_t i = 0; i < a.count; i++, ct__walk_next(&w))
    f->y[w.off[0]] = op->two(f->y[w.off[0]], a.x[i]);
  for (int64_t i = 0; i < kept.count; i++)
    if (!ct__fold_round(f->o.type, f->y[i] / (mean ? (double)(a.count / kept.count) : 1), &f->y[i]))
      return 0;
  return 1;
}

static double zero(double x)
{
  (void)x;
  return 0;
}

static double one(double x)
{
  (void)x;
  return 1;
}

static double least(double x)
{
  (void)x;
  return -INFINITY;
}

static double most(double x)
{
  (void)x;
  return INFINITY;
}

static double plus(double x, double y)
{
  return x + y;
}

static double times(double x, double y)
{
  return x * y;
}

static double greater(double x, double y)
{
  return isnan(x) || x > y ? x : y;
}

static double less(double x, double y)
{
  return isnan(x) || x < y ? x : y;
}

static double either(double x, double y)
{
  return x != 0 || y != 0;
}

static double both(double x, double y)
{
  return x != 0 && y != 0;
}

/* outer, and einsum("i,j->ij") */
static int run_outer(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t x, y;
  const ct_pt2_arg_t *how = ct_pt2_arg(f->node, "equation");
  (void)op;
  if (how) {
    const char *e = how->kind == CT_PT2_STRING ? how->text : "";
    if (strlen(e) != 7 || e[1] != ',' || e[3] != '-' || e[4] != '>' || e[0] != e[5] ||
        e[2] != e[6] || e[0] == e[2] || !ct__fold_in_list(f, "tensors", 0, &x) ||
        !ct__fold_in_list(f, "tensors", 1, &y))
      return 0;
  } else if (!ct__fold_in(f, "self", &x) || !ct__fold_in(f, "vec2", &y)) {
    return 0;
  }
  if (x.ndim != 1 || y.ndim != 1 || x.along || y.along || f->o.count != x.count * y.count) return 0;
  for (int64_t i = 0; i < f->o.count; i++)
    if (!ct__fold_round(f->o.type, x.x[i / y.count] * y.x[i % y.count], &f->y[i])) return 0;
  return 1;
}

#define REDUCE(name, start, with)                                    \
  {                                                                  \
    .op = "aten." name, .run = run_reduce, .one = start, .two = with \
  }

const ct__fold_op_t ct__fold_lists[] = {
    {.op = "aten.cat", .run = run_join},
    {.op = "aten.concat", .run = run_join},
    {.op = "aten.stack", .run = run_join},
    {.op = "aten.meshgrid", .run = run_meshgrid},
    {.op = "aten.index", .run = run_index},
    {.op = "aten.index_select", .run = run_rows},
    {.op = "aten.gather", .run = run_gather},
    {.op = "aten.diff", .run = run_diff},
    {.op = "aten.embedding", .run = run_rows},
    {.op = "aten.cumsum", .run = run_cumulate, .one = zero, .two = plus},
    {.op = "aten.cumprod", .run = run_cumulate, .one = one, .two = times},
    REDUCE("sum", zero, plus),
    REDUCE("mean", zero, plus),
    REDUCE("prod", one, times),
    REDUCE("amax", least, greater),
    REDUCE("amin", most, less),
    REDUCE("any", zero, either),
    REDUCE("all", one, both),
    {.op = "aten.outer", .run = run_outer},
    {.op = "aten.einsum", .run = run_outer},
    {.op = NULL},
};
