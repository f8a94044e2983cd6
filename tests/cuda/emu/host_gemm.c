/* GEMMs as plain loops; replaces cuda/gemm_lt.c in the emulated module.  Also checks what a library
 * assumes: pointers are aligned as the spec says, and the scratch memory exists (all of it is
 * overwritten).  Memory allocated here is not counted by the project's allocator, as in a library.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/gemm_map.h"
#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"

enum { SCRATCH = 1000 };

struct gpu__gemm {
  gpu__gemm_spec_t spec;
};

/* Arguments of one run, copied into the stream. */
typedef struct job {
  gpu__gemm_spec_t g;
  float factor;
  const void *a, *b, *bias, *other;
  void *c, *scratch;
} job_t;

/* Converts a matrix of any type, stored as [rows,cols] or transposed, to dense float32. */
static float *widen(ct_dtype_t type, const void *from, int64_t first, int64_t rows, int64_t cols,
                    int64_t ld, int turned)
{
  float *to = malloc((size_t)(rows * cols + 1) * sizeof *to);
  for (int64_t r = 0; to && r < rows; r++)
    for (int64_t i = 0; i < cols; i++)
      to[r * cols + i] = (float)ct__ref_get(type, from, first + (turned ? i * ld + r : r * ld + i));
  return to;
}

/* Tells the fake runtime which rows of a matrix are read or written. */
static void tell_rows(ct_dtype_t type, const void *p, int64_t first, int64_t rows, int64_t cols,
                      int64_t ld, int writes)
{
  size_t size = ct_dtype_size(type);
  for (int64_t r = 0; r < rows; r++)
    fake_cuda_access((const char *)p + (size_t)(first + r * ld) * size, (size_t)cols * size,
                     writes);
}

static void tell_operands(const gpu__gemm_spec_t *g, const job_t *j, int64_t which)
{
  tell_rows(g->in, j->a, which * g->step_a, g->a_turned ? g->k : g->m, g->a_turned ? g->m : g->k,
            g->lda, 0);
  tell_rows(g->in, j->b, which * g->step_b, g->b_turned ? g->n : g->k, g->b_turned ? g->k : g->n,
            g->ldb, 0);
  if (g->bias) tell_rows(g->in, j->bias, 0, 1, g->n, g->n, 0);
  tell_rows(g->out, j->c, which * g->step_c, g->m, g->n, g->ldc, 1);
}

/* Writes row r of C: applies the epilogue to the sums. */
static void finish(const job_t *j, const float *sum, int64_t first)
{
  const gpu__gemm_spec_t *g = &j->g;
  for (int64_t i = 0; i < g->n; i++) {
    double v = (double)j->factor * sum[i];
    if (g->bias) v += ct__ref_get(g->in, j->bias, i);
    if (g->adds) v += ct__ref_get(g->out, j->other, first + i);
    if (g->relu) v = ct__ref_relu_of(v);
    ct__ref_set(g->out, j->c, first + i, (float)v);
  }
}

/* Multiplies matrix number `which` of the batch.  The inner loop runs along rows of B and C. */
static int multiply(const job_t *j, int64_t which)
{
  int rc = CT_ERR_NOMEM;
  const gpu__gemm_spec_t *g = &j->g;
  float *a = widen(g->in, j->a, which * g->step_a, g->m, g->k, g->lda, g->a_turned);
  float *b = widen(g->in, j->b, which * g->step_b, g->k, g->n, g->ldb, g->b_turned);
  float *sum = malloc((size_t)(g->n + 1) * sizeof *sum);
  if (!a || !b || !sum) goto out;
  for (int64_t r = 0; r < g->m; r++) {
    memset(sum, 0, (size_t)g->n * sizeof *sum);
    for (int64_t k = 0; k < g->k; k++) {
      const float factor = a[r * g->k + k], *row = b + k * g->n;
      for (int64_t i = 0; i < g->n; i++)
        sum[i] += factor * row[i];
    }
    finish(j, sum, which * g->step_c + r * g->ldc);
  }
  rc = CT_OK;
out:
  free(a);
  free(b);
  free(sum);
  return rc;
}

static cudaError_t work(void *args)
{
  const job_t *j = args;
  memset(j->scratch, 0xff, SCRATCH);
  fake_cuda_access(j->scratch, SCRATCH, 1);
  for (int64_t i = 0; i < j->g.batch; i++)
    tell_operands(&j->g, j, i);
  for (int64_t i = 0; i < j->g.batch; i++)
    if (multiply(j, i) != CT_OK) return cudaErrorMemoryAllocation;
  return cudaSuccess;
}

int gpu__gemm_make(ct_dev_t *dev, const gpu__gemm_spec_t *g, gpu__gemm_t **out, size_t *scratch)
{
  (void)dev;
  *out = NULL;
  *scratch = SCRATCH;
  int rc = gpu__gemm_check(g);
  if (rc != CT_OK) return rc;
  *out = ct_mem_alloc(sizeof **out, "matrix product");
  if (!*out) return CT_ERR_NOMEM;
  if (fake_cuda_library("product") != cudaSuccess) {
    ct_mem_free(*out);
    *out = NULL;
    return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a product");
  }
  (*out)->spec = *g;
  return CT_OK;
}

void gpu__gemm_free(gpu__gemm_t *g)
{
  ct_mem_free(g);
}

static int is_aligned(const void *p, int align)
{
  return (uintptr_t)p % (uintptr_t)align == 0;
}

int gpu__gemm_run(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                  void *c, void *scratch, cudaStream_t s)
{
  return gpu__gemm_run_add(g, factor, a, b, bias, c, c, scratch, s);
}

int gpu__gemm_run_add(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                      const void *other, void *c, void *scratch, cudaStream_t s)
{
  const gpu__gemm_spec_t *spec = &g->spec;
  job_t j = {*spec, factor, a, b, bias, other, c, scratch};
  gpu__lt_problem_t p = gpu__gemm_problem(spec);
  if (!gpu__gemm_is_empty(spec) &&
      (!is_aligned(a, p.second.align) || !is_aligned(b, p.first.align) ||
       !is_aligned(c, p.d.align) || !is_aligned(other, p.d.align) ||
       (spec->bias && !is_aligned(bias, 16))))
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                      "product %d x %d x %d: a pointer is not aligned as its spec says",
                      (int)spec->m, (int)spec->n, (int)spec->k);
  if (fake_cuda_work(s, work, &j, sizeof j) == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "a product could not be enqueued");
}
