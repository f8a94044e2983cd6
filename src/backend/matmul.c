/* The matrices of a MATMUL op: see ct_matmul.h. */
#include "backend/ct_matmul.h"

#include <string.h>

static ct_matmul_side_t side_of(const ct_shape_t *s, int turned)
{
  return (ct_matmul_side_t){
      .turned = turned, .rows = ct_dim_back(s, 1), .columns = ct_dim_back(s, 0)};
}

/* Appends leading dim i, or merges it with the one before if all three tensors allow it. */
static void add_leading(ct_matmul_t *k, int64_t size, const int64_t step[3])
{
  ct_matmul_side_t *of[] = {&k->a, &k->b, &k->y};
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
static void merge_rows(ct_matmul_t *k)
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

ct_matmul_t ct_matmul_of(const ct_op_desc_t *d)
{
  ct_matmul_t of_d = {0}, *k = &of_d;
  const ct_shape_t *of[] = {&d->x, &d->x2, &d->y};
  int64_t whole[3];
  k->a = side_of(&d->x, d->u.matmul.a_turned);
  k->b = side_of(&d->x2, d->u.matmul.b_turned);
  k->y = side_of(&d->y, 0);
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
  return of_d;
}

int64_t ct_matmul_pairs(const ct_matmul_t *k, const ct_matmul_side_t *result, int shared)
{
  int64_t n = 1;
  for (int i = 0; i < k->dims; i++)
    if ((result->step[i] == 0) == shared) n *= k->size[i];
  return n;
}

void ct_matmul_pair(const ct_matmul_t *k, const ct_matmul_side_t *result, int64_t i, int64_t j,
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
