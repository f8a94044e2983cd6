/* Products of matrices, whose leading dims are broadcast: batches of cuBLASLt.
 *
 * A batch of the library has one step from matrix to matrix, so one leading dim is its batch; the
 * others are loops of calls. The gradient of a broadcast matrix is a sum of products, in their
 * order; in reduced precision it is summed in float32 and rounded once. */
#include "backend/ct_matmul.h"
#include "cuda/dense.h"
#include "cuda/kernels/elt.h"

enum { FORWARD, TO_A, TO_B, PRODUCTS };

/* One of the three products: y, or the gradient of a or b. */
typedef struct product {
  gpu__gemm_t *first, *next; /* next: adds to the result; NULL: nothing is summed */
  ct_matmul_t loops;         /* the dims that are not the library's batch */
  int sums;                  /* 1: float32 sums that are rounded at the end */
  int64_t count;             /* elements of the result */
} product_t;

typedef struct matmul_op {
  ct_op_t head;
  product_t of[PRODUCTS];
  size_t workspace_at; /* offset in scratch, after the sums */
} matmul_op_t;

static const ct_matmul_side_t *result_of(const ct_matmul_t *k, int what)
{
  return what == FORWARD ? &k->y : what == TO_A ? &k->a : &k->b;
}

/* Returns the largest leading dim along which the result is not shared; -1: none. */
static int batch_dim(const ct_matmul_t *k, const ct_matmul_side_t *result)
{
  int best = -1;
  for (int i = 0; i < k->dims; i++)
    if (result->step[i] != 0 && (best < 0 || k->size[i] > k->size[best])) best = i;
  return best;
}

static void drop_step(ct_matmul_side_t *s, int dim, int dims)
{
  for (int i = dim; i + 1 < dims; i++)
    s->step[i] = s->step[i + 1];
}

static void drop_dim(ct_matmul_t *k, int dim)
{
  drop_step(&k->a, dim, k->dims);
  drop_step(&k->b, dim, k->dims);
  drop_step(&k->y, dim, k->dims);
  for (int i = dim; i + 1 < k->dims; i++)
    k->size[i] = k->size[i + 1];
  k->dims--;
}

/* A matrix as a factor: its side, and whether it is used transposed. */
typedef struct factor {
  const ct_matmul_side_t *side;
  int turned;
} factor_t;

/* Returns a bit if a matrix of the side may begin anywhere, in elements of \a size bytes. */
static int unaligned(const ct_matmul_t *k, const ct_matmul_side_t *s, size_t size, int bit)
{
  for (int i = 0; i < k->dims; i++)
    if ((size_t)s->step[i] * size % 16) return bit;
  return 0;
}

/* Sets the factors of a product, and its sizes. */
static void set_sizes(const ct_matmul_t *k, int what, factor_t f[2], gpu__gemm_spec_t *g)
{
  const factor_t a = {&k->a, k->a.turned}, b = {&k->b, k->b.turned}, y = {&k->y, 0};
  const factor_t a_back = {&k->a, !k->a.turned}, b_back = {&k->b, !k->b.turned},
                 y_back = {&k->y, 1};
  int by_y = what == TO_A ? k->a.turned : k->b.turned; /* the gradient is stored transposed */
  g->m = what == FORWARD || (what == TO_A && !by_y) ? k->m : what == TO_B && by_y ? k->n : k->k;
  g->n = what == FORWARD || (what == TO_B && !by_y) ? k->n : what == TO_A && by_y ? k->m : k->k;
  g->k = what == FORWARD ? k->k : what == TO_A ? k->n : k->m;
  f[0] = what == FORWARD ? a : what == TO_A ? (by_y ? b : y) : by_y ? y_back : a_back;
  f[1] = what == FORWARD ? b : what == TO_A ? (by_y ? y_back : b_back) : by_y ? a : y;
}

static gpu__gemm_spec_t spec_of(const ct_matmul_t *k, int what, int dim, ct_dtype_t type, int sums)
{
  const ct_matmul_side_t *c = result_of(k, what);
  gpu__gemm_spec_t g = {.batch = dim < 0 ? 1 : k->size[dim], .in = type};
  size_t size = ct_dtype_size(type);
  factor_t f[2];
  set_sizes(k, what, f, &g);
  g.out = sums ? CT_F32 : type;
  g.lda = f[0].side->columns;
  g.ldb = f[1].side->columns;
  g.ldc = c->columns;
  g.a_turned = f[0].turned;
  g.b_turned = f[1].turned;
  g.step_a = dim < 0 ? 0 : f[0].side->step[dim];
  g.step_b = dim < 0 ? 0 : f[1].side->step[dim];
  g.step_c = dim < 0 ? 0 : c->step[dim];
  g.unaligned = unaligned(k, f[0].side, size, GPU_GEMM_A) |
                unaligned(k, f[1].side, size, GPU_GEMM_B) |
                unaligned(k, c, ct_dtype_size(g.out), GPU_GEMM_C);
  return g;
}

static int make_product(ct_op_t *op, const ct_matmul_t *k, int what, size_t *scratch)
{
  int rc = CT_OK;
  product_t *p = &((matmul_op_t *)op)->of[what];
  ct_dtype_t type = op->desc.y.dtype;
  const ct_matmul_side_t *c = result_of(k, what);
  int terms = ct_matmul_pairs(k, c, 1) > 1, dim = batch_dim(k, c);
  p->sums = terms && type != CT_F32;
  p->count = ct_matmul_pairs(k, c, 0) * c->rows * c->columns;
  gpu__gemm_spec_t g = spec_of(k, what, dim, type, p->sums);
  p->loops = *k;
  if (dim >= 0) drop_dim(&p->loops, dim);
  CT_TRY(gpu__gemm_add(op->dev, &g, &p->first, scratch));
  g.adds = 1;
  if (terms) CT_TRY(gpu__gemm_add(op->dev, &g, &p->next, scratch));
out:
  return rc;
}

static int matmul_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  matmul_op_t *k = (matmul_op_t *)op;
  ct_matmul_t all = ct_matmul_of(&op->desc);
  size_t workspace = 0;
  if (ct_shape_count(&op->desc.y) == 0) return CT_OK;
  CT_TRY(make_product(op, &all, FORWARD, &workspace));
  for (int i = TO_A; i <= TO_B && op->desc.passes & CT_BWD_DATA; i++) {
    size_t end = 0;
    CT_TRY(make_product(op, &all, i, &workspace));
    if (k->of[i].sums) gpu__take(&end, k->of[i].count, sizeof(float));
    if (end > k->workspace_at) k->workspace_at = end;
  }
  info->scratch = k->workspace_at + workspace;
  info->algorithm = "products";
out:
  return rc;
}

static const char *offset(const void *p, int64_t i, ct_dtype_t t)
{
  return (const char *)p + i * (int64_t)ct_dtype_size(t);
}

/* Runs all calls of a product. */
static int run_product(ct_op_t *op, const ct_op_args_t *g, int what, void *result, cudaStream_t s)
{
  int rc = CT_OK;
  const matmul_op_t *m = (const matmul_op_t *)op;
  const product_t *p = &m->of[what];
  const ct_matmul_t *k = &p->loops;
  const ct_matmul_side_t *c = result_of(k, what);
  int64_t count = ct_matmul_pairs(k, c, 0), terms = ct_matmul_pairs(k, c, 1), at[3];
  ct_dtype_t t = op->desc.y.dtype, of_c = p->sums ? CT_F32 : t;
  void *to = p->sums ? g->scratch : result, *workspace = (char *)g->scratch + m->workspace_at;
  const void *from[3] = {g->x, g->x2, g->dy};
  int turned = what == TO_A ? k->a.turned : k->b.turned;
  int first = what == FORWARD ? 0 : what == TO_A ? (turned ? 1 : 2) : turned ? 2 : 0;
  int second = what == FORWARD ? 1 : what == TO_A ? (turned ? 2 : 1) : turned ? 0 : 2;
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < terms; j++) {
      ct_matmul_pair(k, c, i, j, at);
      int64_t into = what == FORWARD ? at[2] : what == TO_A ? at[0] : at[1];
      CT_TRY(gpu__gemm_run(j ? p->next : p->first, 1, offset(from[first], at[first], t),
                           offset(from[second], at[second], t), NULL,
                           (char *)to + into * (int64_t)ct_dtype_size(of_c), workspace, s));
    }
  if (p->sums) GPU_TRY(gpu__cast(CT_F32, t, p->count, to, result, s));
out:
  return rc;
}

static int matmul_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  int back = a->pass & CT_BWD_DATA, empty = ct_shape_count(&d->y) == 0;
  (void)at;
  if (empty && back && a->dx) GPU_TRY(cudaMemsetAsync(a->dx, 0, ct_shape_bytes(&d->x), s));
  if (empty && back && a->dx2) GPU_TRY(cudaMemsetAsync(a->dx2, 0, ct_shape_bytes(&d->x2), s));
  if (empty) return CT_OK;
  if (a->pass & CT_FWD) CT_TRY(run_product(op, a, FORWARD, a->y, s));
  if (back && a->dx) CT_TRY(run_product(op, a, TO_A, a->dx, s));
  if (back && a->dx2) CT_TRY(run_product(op, a, TO_B, a->dx2, s));
out:
  return rc;
}

static void matmul_clear(ct_op_t *op)
{
  for (int i = 0; i < PRODUCTS; i++) {
    gpu__gemm_free(((matmul_op_t *)op)->of[i].first);
    gpu__gemm_free(((matmul_op_t *)op)->of[i].next);
  }
}

const gpu__kind_t gpu__kind_matmul = {.size = sizeof(matmul_op_t),
                                      .reduced = 1,
                                      .nhwc = -1,
                                      .prepare = matmul_prepare,
                                      .run = matmul_run,
                                      .clear = matmul_clear};
