/* What the fake cuBLASLt rejects, since the library rejects it or leaves undefined what happens. */
#include <stdlib.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_lt.h"
#include "tests/harness/ct_test.h"

static cublasLtHandle_t lt;

/* A product of 4 x 8 and 8 x 6 in float32, as the library is called; a case changes one thing. */
typedef struct call {
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d, unused;
  cublasLtMatmulPreference_t pref;
  cublasLtMatmulHeuristicResult_t found[2];
  char *memory, *a_at, *b_at, *c_at, *d_at, *workspace;
  size_t bytes;
} call_t;

static cublasStatus_t ask_for(call_t *c)
{
  int count = 0;
  return cublasLtMatmulAlgoGetHeuristic(c->lt, c->desc, c->a, c->b, c->d, c->d, c->pref, 2,
                                        c->found, &count);
}

static void call_open(call_t *c)
{
  const uint64_t limit = 1 << 20;
  const uint32_t align = 16;
  fake_lt_reset();
  fake_lt.found = 2;
  *c = (call_t){.lt = lt, .bytes = FAKE_LT_WORKSPACE};
  cublasLtMatmulDescCreate(&c->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&c->a, CUDA_R_32F, 4, 8, 4);
  cublasLtMatrixLayoutCreate(&c->b, CUDA_R_32F, 8, 6, 8);
  cublasLtMatrixLayoutCreate(&c->d, CUDA_R_32F, 4, 6, 4);
  cublasLtMatmulPreferenceCreate(&c->pref);
  cublasLtMatmulPreferenceSetAttribute(c->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
                                       sizeof limit);
  for (int i = 0; i < 4; i++)
    cublasLtMatmulPreferenceSetAttribute(
        c->pref,
        (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
        &align, sizeof align);
  CT_ASSERT_INT(ask_for(c), CUBLAS_STATUS_SUCCESS);
  CT_ASSERT_INT(cudaMalloc((void **)&c->memory, 8192), cudaSuccess);
  cudaMemset(c->memory, 0, 8192);
  c->a_at = c->memory;
  c->b_at = c->memory + 1024;
  c->c_at = c->d_at = c->memory + 2048;
  c->workspace = c->memory + 4096;
}

static cublasStatus_t run_call(call_t *c)
{
  const float one = 1, zero = 0;
  return cublasLtMatmul(c->lt, c->desc, &one, c->a_at, c->a, c->b_at, c->b, &zero, c->c_at, c->d,
                        c->d_at, c->d, &c->found[1].algo, c->workspace, c->bytes, 0);
}

static void call_close(call_t *c)
{
  cudaDeviceSynchronize();
  cudaFree(c->memory);
  cublasLtMatmulPreferenceDestroy(c->pref);
  cublasLtMatrixLayoutDestroy(c->a);
  cublasLtMatrixLayoutDestroy(c->b);
  cublasLtMatrixLayoutDestroy(c->d);
  cublasLtMatmulDescDestroy(c->desc);
}

/* Changes thing number i of a call. */
static cublasStatus_t spoil(call_t *c, int i)
{
  const int32_t batch = 2, turned = CUBLAS_OP_T;
  const int64_t step = 4;
  switch (i) {
  case 0:
    c->a_at += 4;
    break;
  case 1:
    c->b_at += 8;
    break;
  case 2:
    c->d_at = c->c_at += 4;
    break;
  case 3:
    c->d_at += 16; /* over a part of C */
    break;
  case 4:
    c->workspace += 16;
    break;
  case 5:
    c->bytes--;
    break;
  case 6:
    c->c_at = c->d_at = c->a_at;
    break;
  case 7:
    c->workspace = c->d_at;
    break;
  case 8:
    cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    break;
  case 9:
    cublasLtMatrixLayoutSetAttribute(c->a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                     sizeof batch);
    break;
  case 10:
    for (int m = 0; m < 3; m++) {
      cublasLtMatrixLayout_t l = m == 0 ? c->a : m == 1 ? c->b : c->d;
      cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
      cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                       sizeof step);
    }
    return ask_for(c);
  case 11:
    cublasLtMatrixLayoutDestroy(c->b);
    break;
  case 12:
    cublasLtMatmulDescDestroy(c->desc);
    break;
  case 13:
    c->lt = NULL;
    break;
  case 14:
    cublasLtMatmulPreferenceDestroy(c->pref);
    return ask_for(c);
  case 15:
    return cublasLtMatrixLayoutCreate(&c->unused, CUDA_R_32F, 4, 8, 3);
  case 16:
    return cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &step,
                                          sizeof step);
  case 17:
    cublasLtMatrixLayoutDestroy(c->a);
    cublasLtMatrixLayoutCreate(&c->a, CUDA_R_32F, 4, 8, 12); /* not that of the algorithm */
    break;
  default:
    break;
  }
  return run_call(c);
}

static void the_library_rejects(void)
{
  enum { WRONG = 18 };
  int alive = fake_lt.alive;
  for (int i = 0; i <= WRONG; i++) {
    call_t c;
    call_open(&c);
    CT_ASSERT_INT(spoil(&c, i) != CUBLAS_STATUS_SUCCESS, i < WRONG);
    call_close(&c);
    CT_ASSERT_INT(fake_lt.alive, alive);
  }
}

static void a_handle_can_fail(void)
{
  cublasLtHandle_t other;
  setenv("CTRAIN_FAKE_CUDA_FAIL", "alloc:1", 1);
  fake_cuda_reset();
  CU_ASSERT(cublasLtCreate(&other) != CUBLAS_STATUS_SUCCESS);
  unsetenv("CTRAIN_FAKE_CUDA_FAIL");
  fake_cuda_reset();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_library_rejects), CT_TEST(a_handle_can_fail),
                                    CT_TEST_END};
  if (cublasLtCreate(&lt) != CUBLAS_STATUS_SUCCESS) return 1;
  int status = ct_test_main("fake cuBLASLt", tests, argc, argv);
  cublasLtDestroy(lt);
  return status;
}
