/* Products of matrices, torch.matmul of tensors with 2 dims or more: y = a b for each pair of
 * matrices, where the dims before the matrices are broadcast. */
#include "ref/ref.h"

/* One of the three tensors: strides of its matrix, and of each dim before it, counted from the
 * last; 0 in dims that are broadcast. */
typedef struct factor {
  int64_t row, column, at[CT_MAX_DIMS];
} factor_t;

static factor_t factor_of(const ct_shape_t *s, int turned)
{
  factor_t f = {.row = s->dim[s->ndim - 1], .column = 1};
  int64_t step = ct_dim_back(s, 0) * ct_dim_back(s, 1);
  if (turned) f = (factor_t){.row = 1, .column = f.row};
  for (int i = 2; i < s->ndim; i++) {
    f.at[i] = ct_dim_back(s, i) > 1 ? step : 0;
    step *= ct_dim_back(s, i);
  }
  return f;
}

typedef struct product {
  factor_t a, b, y;
  int64_t m, n, k, count; /* count: matrices in y */
} product_t;

static product_t matmul_product(const ct_op_desc_t *d)
{
  product_t p = {.a = factor_of(&d->x, d->u.matmul.a_turned),
                 .b = factor_of(&d->x2, d->u.matmul.b_turned),
                 .y = factor_of(&d->y, 0),
                 .m = ct_dim_back(&d->y, 1),
                 .n = ct_dim_back(&d->y, 0),
                 .k = ct_dim_back(&d->x, d->u.matmul.a_turned ? 1 : 0)};
  p.count = ct_shape_count(&d->y) / (p.m * p.n);
  return p;
}

/* Returns the offset of the factor's matrix for matrix i of y. */
static int64_t matrix(const ct_op_desc_t *d, const factor_t *f, int64_t i)
{
  int64_t at = 0;
  for (int k = 2; k < d->y.ndim; k++) {
    at += i % ct_dim_back(&d->y, k) * f->at[k];
    i /= ct_dim_back(&d->y, k);
  }
  return at;
}

static void matmul_forward(const ct_op_desc_t *d, const product_t *p, const ct_op_args_t *g)
{
  ct_dtype_t t = d->y.dtype;
  for (int64_t i = 0; i < p->count * p->m * p->n; i++) {
    int64_t which = i / (p->m * p->n), r = i / p->n % p->m, c = i % p->n;
    int64_t a = matrix(d, &p->a, which) + r * p->a.row;
    int64_t b = matrix(d, &p->b, which) + c * p->b.column;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
      sum += ct__ref_get(t, g->x, a + k * p->a.column) * ct__ref_get(t, g->x2, b + k * p->b.row);
    ct__ref_set(t, g->y, i, sum);
  }
}

/* Sets the gradient of one factor: da = dy b^T, or db = a^T dy.  \a sum is workspace. */
static void gradient(const ct_op_desc_t *d, const product_t *p, const ct_op_args_t *g, int second,
                     double *sum)
{
  const ct_shape_t *shape = second ? &d->x2 : &d->x;
  const factor_t *own = second ? &p->b : &p->a, *other = second ? &p->a : &p->b;
  const void *from = second ? g->x : g->x2;
  ct_dtype_t t = d->y.dtype;
  int64_t count = ct_shape_count(shape), size = p->m * p->n * p->k;
  for (int64_t i = 0; i < count; i++)
    sum[i] = 0;
  for (int64_t i = 0; i < p->count * size; i++) {
    int64_t which = i / size, r = i / (p->n * p->k) % p->m, c = i / p->k % p->n, k = i % p->k;
    int64_t at = matrix(d, own, which), of = matrix(d, other, which);
    at += second ? k * own->row + c * own->column : r * own->row + k * own->column;
    of += second ? r * other->row + k * other->column : k * other->row + c * other->column;
    sum[at] += ct__ref_get(t, g->dy, (which * p->m + r) * p->n + c) * ct__ref_get(t, from, of);
  }
  for (int64_t i = 0; i < count; i++)
    ct__ref_set(t, second ? g->dx2 : g->dx, i, sum[i]);
}

static int matmul_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  product_t p = matmul_product(d);
  if (a->pass & CT_FWD) matmul_forward(d, &p, a);
  if (a->pass & CT_BWD_DATA && a->dx) gradient(d, &p, a, 0, a->scratch);
  if (a->pass & CT_BWD_DATA && a->dx2) gradient(d, &p, a, 1, a->scratch);
  return CT_OK;
}

static void matmul_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  int64_t a = ct_shape_count(&d->x), b = ct_shape_count(&d->x2);
  if (ct_op_goes_back(d)) info->scratch = (size_t)(a > b ? a : b) * sizeof(double);
}

const ct__ref_kind_t ct__ref_matmul = {.run = matmul_run, .needs = matmul_needs, .reduced = 1};
