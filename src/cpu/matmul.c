/* Products of matrices, whose leading dims are broadcast.
 *
 * Leading dims are merged where possible: a product with one matrix for all, such as a weight, is
 * one large GEMM.  Otherwise there is a GEMM for each pair of matrices; many run on one thread
 * each, few on all threads.  The gradient of a broadcast matrix is the sum over its uses, in their
 * order. */
#include "cpu/kinds.h"
#include "cpu/gemm/gemm_blocked.h"
#include "base/ct_err.h"
#include <string.h>

/* One of the three tensors: its matrix, and its step from one pair of matrices to the next in each
 * leading dim, the last first; 0 where it is broadcast. */
typedef struct operand {
  int turned;
  int64_t rows, columns; /* as stored */
  int64_t step[CT_MAX_DIMS];
} operand_t;

typedef struct matmul_op {
  ct_op_t head;
  operand_t a, b, y;
  int64_t m, n, k;
  int dims; /* leading dims, all larger than 1 */
  int64_t size[CT_MAX_DIMS];
} matmul_op_t;

/* ---- shapes ---- */

static operand_t operand_of(const ct_shape_t *s, int turned)
{
  return (operand_t){.turned = turned, .rows = ct_dim_back(s, 1), .columns = ct_dim_back(s, 0)};
}

/* Appends leading dim i, or merges it with the one before if all three tensors allow it. */
static void add_leading(matmul_op_t *k, int64_t size, const int64_t step[3])
{
  operand_t *of[] = {&k->a, &k->b, &k->y};
  int last = k->dims - 1, fit = k->dims > 0;
  for (int i = 0; i < 3 && fit; i++)
    fit = step[i] == of[i]->step[last] * k->size[last];
  if (fit) {
    k->size[last] *= size;
    return;
  }
  for (int i = 0; i < 3; i++)
    of[i]->step[k->dims] = step[i];
  k->size[k->dims++] = size;
}

/* Makes the innermost leading dim part of m, if b is broadcast along it and the rows of a and y
 * follow each other. */
static void merge_rows(matmul_op_t *k)
{
  while (k->dims > 0 && k->b.step[0] == 0 && !k->a.turned && k->a.step[0] == k->m * k->k) {
    k->m *= k->size[0];
    k->a.rows = k->y.rows = k->m;
    k->dims--;
    for (int i = 0; i < k->dims; i++) {
      k->size[i] = k->size[i + 1];
      k->a.step[i] = k->a.step[i + 1];
      k->b.step[i] = k->b.step[i + 1];
      k->y.step[i] = k->y.step[i + 1];
    }
  }
}

static void find_matrices(matmul_op_t *k, const ct_op_desc_t *d)
{
  const ct_shape_t *of[] = {&d->x, &d->x2, &d->y};
  int64_t whole[3];
  k->a = operand_of(&d->x, d->u.matmul.a_turned);
  k->b = operand_of(&d->x2, d->u.matmul.b_turned);
  k->y = operand_of(&d->y, 0);
  k->m = k->y.rows;
  k->n = k->y.columns;
  k->k = k->a.turned ? k->a.rows : k->a.columns;
  for (int i = 0; i < 3; i++)
    whole[i] = ct_dim_back(of[i], 0) * ct_dim_back(of[i], 1);
  for (int i = 2; i < d->y.ndim; i++) {
    int64_t step[3];
    for (int j = 0; j < 3; j++) {
      int64_t size = ct_dim_back(of[j], i);
      step[j] = size == 1 ? 0 : whole[j];
      whole[j] *= size;
    }
    if (ct_dim_back(&d->y, i) != 1) add_leading(k, ct_dim_back(&d->y, i), step);
  }
  merge_rows(k);
}

/* ---- one product ---- */

static cpu__matrix_t view(const operand_t *o, const float *at)
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
static void one_pair(const matmul_op_t *k, int what, const tensors_t *t, const int64_t at[3],
                     int add)
{
  const ct_dev_t *dev = k->head.dev;
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

static const operand_t *result_of(const matmul_op_t *k, int what)
{
  return what == FORWARD ? &k->y : what == TO_A ? &k->a : &k->b;
}

/* Returns the number of matrices in the result, or with `shared` the pairs that are summed in
 * each. */
static int64_t pairs(const matmul_op_t *k, const operand_t *result, int shared)
{
  int64_t n = 1;
  for (int i = 0; i < k->dims; i++)
    if ((result->step[i] == 0) == shared) n *= k->size[i];
  return n;
}

/* Sets the offsets of the pair that is the j-th of those summed in result matrix i. */
static void pair_at(const matmul_op_t *k, const operand_t *result, int64_t i, int64_t j,
                    int64_t at[3])
{
  memset(at, 0, 3 * sizeof *at);
  for (int l = 0; l < k->dims; l++) {
    int64_t *of = result->step[l] == 0 ? &j : &i, place = *of % k->size[l];
    *of /= k->size[l];
    at[0] += place * k->a.step[l];
    at[1] += place * k->b.step[l];
    at[2] += place * k->y.step[l];
  }
}

static void one_result(const matmul_op_t *k, int what, const tensors_t *t, int64_t i, int64_t terms)
{
  int64_t at[3];
  for (int64_t j = 0; j < terms; j++) {
    pair_at(k, result_of(k, what), i, j, at);
    one_pair(k, what, t, at, j > 0);
  }
}

static void all_pairs(const matmul_op_t *k, int what, const tensors_t *t)
{
  int64_t count = pairs(k, result_of(k, what), 0), terms = pairs(k, result_of(k, what), 1);
  int apart = count >= 2 * k->head.dev->threads;
  double flops = (double)(count * terms) * (double)(k->m * k->n) * (double)k->k;
#pragma omp parallel for schedule(static) if (apart && flops > 2.5e5)
  for (int64_t i = 0; i < (apart ? count : 0); i++)
    one_result(k, what, t, i, terms);
  for (int64_t i = 0; i < (apart ? 0 : count); i++)
    one_result(k, what, t, i, terms);
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
  find_matrices((matmul_op_t *)op, &op->desc);
  info->algorithm = "blocked";
  return CT_OK;
}

const cpu__op_kind_t cpu__matmul = {.size = sizeof(matmul_op_t),
                                    .bf16 = 1,
                                    .plain = 1,
                                    .stores = cpu__always,
                                    .prepare = matmul_prepare,
                                    .run = matmul_run};
