/* Maps row-major matrix products to cuBLASLt's column-major ones; see gemm_map.h. */
#include "cuda/gemm_map.h"
#include "base/ct_err.h"

static int is_type(ct_dtype_t t)
{
  return t == CT_F32 || t == CT_BF16 || t == CT_F16;
}

static const char *wrong(const gpu__gemm_spec_t *g)
{
  if (g->m < 0 || g->n < 0 || g->k < 0 || g->batch < 0) return "a size is negative";
  if (g->lda < (g->a_turned ? g->m : g->k)) return "lda is less than a row of A";
  if (g->ldb < (g->b_turned ? g->k : g->n)) return "ldb is less than a row of B";
  if (g->ldc < g->n) return "ldc is less than a row of C";
  if (!is_type(g->in) || (g->out != g->in && g->out != CT_F32))
    return "this combination of types is not supported";
  if (g->bias && (g->batch > 1 || g->out != g->in))
    return "a bias needs a single GEMM whose result has the type of its factors";
  if (g->relu && (g->batch > 1 || g->ldc != g->n)) return "a ReLU needs a single, dense GEMM";
  if (g->k == 0 && (g->bias || g->ldc != g->n))
    return "an empty sum must be dense and without bias";
  return NULL;
}

int gpu__gemm_check(const gpu__gemm_spec_t *g)
{
  const char *what = wrong(g);
  if (!what) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "product %lld x %lld x %lld: %s",
                    (long long)g->m, (long long)g->n, (long long)g->k, what);
}

int gpu__gemm_is_empty(const gpu__gemm_spec_t *g)
{
  return g->m == 0 || g->n == 0 || g->k == 0 || g->batch == 0;
}

/* Returns a row-major matrix [rows,cols] with ld elements between rows. */
static gpu__lt_matrix_t matrix(const gpu__gemm_spec_t *g, int which, int64_t rows, int64_t cols)
{
  gpu__lt_matrix_t m = {.type = g->in, .rows = cols, .cols = rows, .align = 16};
  m.ld = which == GPU_GEMM_A ? g->lda : which == GPU_GEMM_B ? g->ldb : g->ldc;
  m.step = which == GPU_GEMM_A ? g->step_a : which == GPU_GEMM_B ? g->step_b : g->step_c;
  m.turned = which == GPU_GEMM_A ? g->a_turned : which == GPU_GEMM_B ? g->b_turned : 0;
  if (which == GPU_GEMM_C) m.type = g->out;
  int64_t size = (int64_t)ct_dtype_size(m.type);
  if (g->unaligned & which) m.align = (int)size;
  while (g->batch > 1 && m.step * size % m.align != 0)
    m.align /= 2;
  return m;
}

gpu__lt_problem_t gpu__gemm_problem(const gpu__gemm_spec_t *g)
{
  gpu__lt_problem_t p = {.batch = g->batch, .beta = g->adds ? 1 : 0, .bias = g->bias};
  p.first = g->b_turned ? matrix(g, GPU_GEMM_B, g->n, g->k) : matrix(g, GPU_GEMM_B, g->k, g->n);
  p.second = g->a_turned ? matrix(g, GPU_GEMM_A, g->k, g->m) : matrix(g, GPU_GEMM_A, g->m, g->k);
  p.d = matrix(g, GPU_GEMM_C, g->m, g->n);
  return p;
}

int64_t gpu__lt_extent(const gpu__lt_matrix_t *m, int64_t batch)
{
  return (batch - 1) * m->step + (m->cols - 1) * m->ld + m->rows;
}
