/* Copies by a map of indices, element by element: x is padded by the rules of its edges, and each
 * element of y reads one element of it. */
#include <string.h>

#include "ref/ref.h"

typedef struct view {
  int n;
  const int64_t *dim;
} view_t;

static view_t view_of(int n, const int64_t *dim, const ct_shape_t *s)
{
  return n ? (view_t){n, dim} : (view_t){s->ndim, s->dim};
}

/* Returns the index in 0 … n - 1 that is read for index i; -1: the constant. */
static int64_t inside(int edge, int64_t i, int64_t n)
{
  while (i < 0 || i >= n) {
    if (edge == CT_EDGE_VALUE) return -1;
    if (edge == CT_EDGE_REPLICATE || n == 1) return i < 0 ? 0 : n - 1;
    if (edge == CT_EDGE_WRAP)
      i += i < 0 ? n : -n;
    else
      i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}

/* Returns the element of x that element `at` of y reads; -1: the constant. */
static int64_t source_of(const ct_op_desc_t *d, const view_t *x, const view_t *y, int64_t at)
{
  int64_t index[CT_MAX_DIMS], all = 0;
  for (int s = 0; s < x->n; s++)
    index[s] = d->u.strided.start[s];
  for (int i = y->n - 1; i >= 0; at /= y->dim[i--])
    if (d->u.strided.from[i] >= 0)
      index[d->u.strided.from[i]] += d->u.strided.step[i] * (at % y->dim[i]);
  for (int s = 0; s < x->n; s++) {
    int64_t i = inside(d->u.strided.edge[s], index[s], x->dim[s]);
    if (i < 0) return -1;
    all = all * x->dim[s] + i;
  }
  return all;
}

static int strided_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  view_t x = view_of(d->u.strided.x_view_dims, d->u.strided.x_view, &d->x);
  view_t y = view_of(d->u.strided.y_view_dims, d->u.strided.y_view, &d->y);
  int64_t nx = ct_shape_count(&d->x), ny = ct_shape_count(&d->y);
  double *sum = a->pass & CT_BWD_DATA ? a->scratch : NULL;
  if (sum) memset(sum, 0, (size_t)nx * sizeof *sum);
  for (int64_t i = 0; i < ny; i++) {
    int64_t k = source_of(d, &x, &y, i);
    if (a->pass & CT_FWD)
      ct__ref_set(d->y.dtype, a->y, i,
                  k < 0 ? d->u.strided.value : ct__ref_get(d->x.dtype, a->x, k));
    if (sum && k >= 0) sum[k] += ct__ref_get(d->y.dtype, a->dy, i);
  }
  for (int64_t i = 0; sum && i < nx; i++)
    ct__ref_set(d->x.dtype, a->dx, i, sum[i]);
  return CT_OK;
}

static void strided_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  if (d->passes & CT_BWD_DATA) info->scratch = (size_t)ct_shape_count(&d->x) * sizeof(double);
}

const ct__ref_kind_t ct__ref_strided = {.needs = strided_needs, .run = strided_run, .reduced = 1};
