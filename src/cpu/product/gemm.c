/* Matrix products: each is done in the way that costs least, a function of its sizes alone. */
#include "cpu/product/gemm.h"
#include "cpu/onednn/gemm.h"
#include "base/ct_err.h"
#include <math.h>
#include <string.h>

const cpu__gemm_way_t *const cpu__gemm_ways[] = {&cpu__gemm_onednn, NULL};

int cpu__gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
              int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
  cpu__gemm_t g = {op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
  const cpu__gemm_way_t *best = NULL;
  double least = INFINITY;
  if (k == 0 && beta == 0)
    for (int64_t i = 0; i < m; i++)
      memset(c + i * ldc, 0, (size_t)n * sizeof *c);
  if (m == 0 || n == 0 || k == 0) return CT_OK;
  for (int w = 0; cpu__gemm_ways[w]; w++) {
    double cost = cpu__gemm_ways[w]->cost(&g);
    if (cost >= least) continue;
    least = cost;
    best = cpu__gemm_ways[w];
  }
  return best->run(&g);
}

int cpu__dense_forward(cpu__dense_t d, const float *x, const float *w, int add, float *y)
{
  return cpu__gemm('N', 'T', d.rows, d.out, d.in, 1, x, d.in, w, d.in, add ? 1 : 0, y, d.out);
}

int cpu__dense_data(cpu__dense_t d, const float *dy, const float *w, float *dx)
{
  return cpu__gemm('N', 'N', d.rows, d.in, d.out, 1, dy, d.out, w, d.in, 0, dx, d.in);
}

int cpu__dense_param(cpu__dense_t d, const float *x, const float *dy, float *dw)
{
  return cpu__gemm('T', 'N', d.out, d.in, d.rows, 1, dy, d.out, x, d.in, 0, dw, d.in);
}
