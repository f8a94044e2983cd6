#include "cpu/onednn/gemm.h"
#include "base/ct_err.h"
#include "cpu/kern/op.h"
#include <dnnl.h>
#include <omp.h>
#include <string.h>

/* Multiply-adds below which waiting for other threads takes longer than the product. */
#define SMALL 1e6

int cpu__gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
              int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
  if (k == 0 && beta == 0)
    for (int64_t i = 0; i < m; i++)
      memset(c + i * ldc, 0, (size_t)n * sizeof *c);
  if (m == 0 || n == 0 || k == 0) return CT_OK;
  int threads = omp_get_max_threads(), alone = (double)m * (double)n * (double)k < SMALL;
  if (alone) omp_set_num_threads(1);
  dnnl_status_t s = dnnl_sgemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (alone) omp_set_num_threads(threads);
  if (s == dnnl_success) return CT_OK;
  return ct_err_set(s == dnnl_out_of_memory ? CT_ERR_NOMEM : CT_ERR_DEVICE, __FILE__, __LINE__,
                    "oneDNN: a matrix product failed with status %d", (int)s);
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
