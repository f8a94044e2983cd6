/* Products of matrices, whose leading dims are broadcast.
 *
 * Leading dims are merged where possible: a product with one matrix for all, such as a weight, is
 * one large GEMM.  Otherwise there is a GEMM for each pair of matrices; many run on one thread
 * each, few on all threads.  The gradient of a broadcast matrix is the sum over its uses, in their
 * order. */
#include "cpu/kinds.h"
#include "backend/ct_matmul.h"
#include "cpu/gemm/gemm_blocked.h"
#include "base/ct_err.h"
#include <string.h>

typedef struct matmul_op {
  ct_op_t head;
  ct_matmul_t of;
} matmul_op_t;

/* ---- one product ---- */

static cpu__matrix_t view(const ct_matmul_side_t *o, const float *at)
{
  cpu__matrix_t m = cpu__row_major(at, o->columns);
  return o->turned ? cpu__transposed(m) : m;
}

static void product(const ct_dev_t *dev, cpu__matrix_t a, cpu__matrix_t b, float *c, int64_t m,
                    int64_t n, int64_t k, int add)
{
  cpu__gemm_t g = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = cpu__row_major(c, n), .add = add};
  cpu__gemm_blocked(dev, &g);
}

/* The tensors of a run. */
typedef struct tensors {
  const float *a, *b, *dy;
  float *y, *da, *db;
} tensors_t;

enum { FORWARD, TO_A, TO_B };

/* Runs the product of one pair of matrices, at those offsets. */
static void one_pair(const matmul_op_t *op, int what, const tensors_t *t, const int64_t at[3],
                     int add)
{
  const ct_dev_t *dev = op->head.dev;
  const ct_matmul_t *k = &op->of;
  cpu__matrix_t dy = {0}, a = {0}, b = {0};
  if (what != FORWARD) dy = view(&k->y, t->dy + at[2]);
  if (what != TO_A) a = view(&k->a, t->a + at[0]);
  if (what != TO_B) b = view(&k->b, t->b + at[1]);
  if (what == FORWARD)
    product(dev, a, b, t->y + at[2], k->m, k->n, k->k, add);
  else if (what == TO_A && k->a.turned) /* b dy^T */
    product(dev, b, cpu__transposed(dy), t->da + at[0], k->k, k->m, k->n, add);
  else if (what == TO_A) /* dy b^T */
    product(dev, dy, cpu__transposed(b), t->da + at[0], k->m, k->k, k->n, add);
  else if (k->b.turned) /* dy^T a */
    product(dev, cpu__transposed(dy), a, t->db + at[1], k->n, k->k, k->m, add);
  else /* a^T dy */
    product(dev, cpu__transposed(a), dy, t->db + at[1], k->k, k->n, k->m, add);
}

/* ---- all products ---- */

static const ct_matmul_side_t *result_of(const ct_matmul_t *k, int what)
{
  return what == FORWARD ? &k->y : what == TO_A ? &k->a : &k->b;
}

static void one_result(const matmul_op_t *k, int what, const tensors_t *t, int64_t i, int64_t terms)
{
  int64_t at[3];
  for (int64_t j = 0; j < terms; j++) {
    ct_matmul_pair(&k->of, result_of(&k->of, what), i, j, at);
    one_pair(k, what, t, at, j > 0);
  }
}

static void all_pairs(const matmul_op_t *op, int what, const tensors_t *t)
{
  const ct_matmul_t *k = &op->of;
  int64_t count = ct_matmul_pairs(k, result_of(k, what), 0);
  int64_t terms = ct_matmul_pairs(k, result_of(k, what), 1);
  int apart = count >= 2 * op->head.dev->threads;
  double flops = (double)(count * terms) * (double)(k->m * k->n) * (double)k->k;
#pragma omp parallel for schedule(static) if (apart && flops > 2.5e5)
  for (int64_t i = 0; i < (apart ? count : 0); i++)
    one_result(op, what, t, i, terms);
  for (int64_t i = 0; i < (apart ? 0 : count); i++)
    one_result(op, what, t, i, terms);
}

static int matmul_run(ct_op_t *op, const ct_op_args_t *a)
{
  const matmul_op_t *k = (const matmul_op_t *)op;
  tensors_t t = {.a = a->x, .b = a->x2, .y = a->y, .dy = a->dy, .da = a->dx, .db = a->dx2};
  if (ct_shape_count(&op->desc.y) == 0) {
    /* no pairs: the gradient of what they share is 0 */
    if (a->pass & CT_BWD_DATA && a->dx) memset(a->dx, 0, ct_shape_bytes(&op->desc.x));
    if (a->pass & CT_BWD_DATA && a->dx2) memset(a->dx2, 0, ct_shape_bytes(&op->desc.x2));
    return CT_OK;
  }
  if (a->pass & CT_FWD) all_pairs(k, FORWARD, &t);
  if (a->pass & CT_BWD_DATA && a->dx) all_pairs(k, TO_A, &t);
  if (a->pass & CT_BWD_DATA && a->dx2) all_pairs(k, TO_B, &t);
  return CT_OK;
}

static int matmul_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)like;
  ((matmul_op_t *)op)->of = ct_matmul_of(&op->desc);
  info->algorithm = "blocked";
  return CT_OK;
}

const cpu__op_kind_t cpu__matmul = {.size = sizeof(matmul_op_t),
                                    .bf16 = 1,
                                    .plain = 1,
                                    .stores = cpu__always,
                                    .prepare = matmul_prepare,
                                    .run = matmul_run};
