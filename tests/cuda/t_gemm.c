/* gemm_lt.c on a fake cuBLASLt that computes column-major problems: what comes out must be what the
 * spec of product.h means, row by row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cuda/gemm_map.h"
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"
#include "cuda/library_handles.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_lt.h"
#include "tests/harness/ct_test.h"

static gpu__libraries_t libraries;
static ct_dev_t dev = {.libraries = &libraries};

/* ---- what gemm_lt.c takes from its module ---- */

int gpu__check(cudaError_t e, const char *call, const char *file, int line)
{
  if (e == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, file, line, "%s: %s", call, cudaGetErrorString(e));
}

int gpu__lt_check(cublasStatus_t status, const char *call, const char *file, int line)
{
  if (status == CUBLAS_STATUS_SUCCESS) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, file, line, "%s: status %d", call, (int)status);
}

typedef struct after_job {
  ct_dtype_t type;
  void *y;
  const void *bias; /* NULL: none */
  int is_relu;
  int64_t count, channels;
} after_job_t;

static cudaError_t after(void *arg)
{
  const after_job_t *j = arg;
  for (int64_t i = 0; i < j->count; i++) {
    double v = fake_lt_get(j->type, j->y, i);
    if (j->bias) v += fake_lt_get(j->type, j->bias, i % j->channels);
    fake_lt_set(j->type, j->y, i, j->is_relu && v <= 0 ? 0 : v);
  }
  return cudaSuccess;
}

cudaError_t gpu__bias_relu(ct_dtype_t type, void *y, const void *bias, int is_relu, int64_t rows,
                           int64_t channels, cudaStream_t s)
{
  after_job_t j = {type, y, bias, is_relu, rows * channels, channels};
  return !bias && !is_relu ? cudaErrorInvalidValue : fake_cuda_work(s, after, &j, sizeof j);
}

/* ---- a product and what it means ---- */

enum { A, B, BIAS, C, SCRATCH, BLOCKS };

/* Device memory of a product. */
typedef struct trial {
  gpu__gemm_spec_t g;
  int64_t count[SCRATCH]; /* elements */
  char *at[BLOCKS];
  void *block[BLOCKS];
  double *was, *want; /* of C */
} trial_t;

static int64_t span(int64_t rows, int64_t ld, int64_t cols, int64_t step, int64_t batch)
{
  return rows * cols == 0 ? 1 : (batch - 1) * step + (rows - 1) * ld + cols;
}

static double get(const trial_t *t, int which, int64_t i)
{
  return fake_lt_get(which == C ? t->g.out : t->g.in, t->at[which], i);
}

/* One element of C, as product.h says it. */
static double meant(const trial_t *t, float factor, int64_t batch, int64_t r, int64_t i)
{
  const gpu__gemm_spec_t *g = &t->g;
  double sum = 0;
  for (int64_t k = 0; k < g->k; k++) {
    int64_t a = batch * g->step_a + (g->a_turned ? k * g->lda + r : r * g->lda + k);
    int64_t b = batch * g->step_b + (g->b_turned ? i * g->ldb + k : k * g->ldb + i);
    sum += get(t, A, a) * get(t, B, b);
  }
  sum *= factor;
  if (g->bias) sum += get(t, BIAS, i);
  if (g->adds) sum += t->was[batch * g->step_c + r * g->ldc + i];
  return g->relu && sum < 0 ? 0 : sum;
}

static void mean_all(trial_t *t, float factor)
{
  const gpu__gemm_spec_t *g = &t->g;
  for (int64_t i = 0; i < t->count[C]; i++)
    t->want[i] = t->was[i] = get(t, C, i);
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t r = 0; r < g->m; r++)
      for (int64_t i = 0; i < g->n; i++)
        t->want[batch * g->step_c + r * g->ldc + i] = meant(t, factor, batch, r, i);
}

/* shift: bytes by which A, B and C lie off an aligned address. */
static void trial_open(trial_t *t, const gpu__gemm_spec_t *g, size_t shift, size_t scratch)
{
  static uint64_t seed;
  *t = (trial_t){.g = *g, .count = {[BIAS] = g->n}};
  t->count[A] =
      span(g->a_turned ? g->k : g->m, g->lda, g->a_turned ? g->m : g->k, g->step_a, g->batch);
  t->count[B] =
      span(g->b_turned ? g->n : g->k, g->ldb, g->b_turned ? g->k : g->n, g->step_b, g->batch);
  t->count[C] = span(g->m, g->ldc, g->n, g->step_c, g->batch);
  for (int i = 0; i < BLOCKS; i++) {
    size_t bytes = i < SCRATCH ? (size_t)t->count[i] * sizeof(float) + 16 : scratch + 1;
    size_t off = i == A || i == B || i == C ? shift : i == SCRATCH;
    if (cudaMalloc(&t->block[i], bytes + off) != cudaSuccess) abort();
    t->at[i] = (char *)t->block[i] + off;
  }
  for (int i = 0; i < SCRATCH; i++)
    for (int64_t k = 0; k < t->count[i]; k++)
      fake_lt_set(i == C ? g->out : g->in, t->at[i], k,
                  i == C && !g->adds ? NAN : (double)((++seed * 7919) % 17) / 8 - 1);
  t->was = ct_mem_array(t->count[C], sizeof *t->was, "test");
  t->want = ct_mem_array(t->count[C], sizeof *t->want, "test");
}

static void trial_close(trial_t *t)
{
  for (int i = 0; i < BLOCKS; i++)
    cudaFree(t->block[i]);
  ct_mem_free(t->was);
  ct_mem_free(t->want);
}

/* Elements of C that are wrong; what is not of a matrix must be what it was. */
static int64_t wrong(const trial_t *t)
{
  double tolerance = t->g.out == CT_F32   ? 1e-5
                     : t->g.out == CT_F16 ? 2e-3
                                          : 16e-3; /* rounded twice */
  int64_t bad = 0;
  for (int64_t i = 0; i < t->count[C]; i++) {
    double want = t->want[i], v = get(t, C, i);
    bad += isnan(want) ? !isnan(v) : !(fabs(v - want) <= tolerance * (1 + fabs(want)));
  }
  return bad;
}

static int apart; /* 1: what is added to the result is in other memory */

/* Moves the elements of C to other memory. */
static int take_away(trial_t *t, char **other)
{
  int rc = CT_OK;
  const gpu__gemm_spec_t *g = &t->g;
  size_t bytes = (size_t)t->count[C] * sizeof(float);
  GPU_TRY(cudaMalloc((void **)other, bytes));
  memcpy(*other, t->at[C], bytes);
  for (int64_t batch = 0; batch < g->batch; batch++)
    for (int64_t r = 0; r < g->m; r++)
      for (int64_t i = 0; i < g->n; i++)
        fake_lt_set(g->out, t->at[C], batch * g->step_c + r * g->ldc + i, NAN);
out:
  return rc;
}

static int run(trial_t *t, gpu__gemm_t *p, float factor)
{
  int rc = CT_OK;
  char *other = NULL;
  const void *bias = t->g.bias ? t->at[BIAS] : NULL;
  cudaStream_t s;
  GPU_TRY(cudaStreamCreate(&s));
  if (t->g.adds && apart) {
    CT_TRY(take_away(t, &other));
    CT_TRY(
        gpu__gemm_run_add(p, factor, t->at[A], t->at[B], bias, other, t->at[C], t->at[SCRATCH], s));
  } else {
    CT_TRY(gpu__gemm_run(p, factor, t->at[A], t->at[B], bias, t->at[C], t->at[SCRATCH], s));
  }
  GPU_TRY(cudaStreamSynchronize(s));
out:
  cudaStreamDestroy(s);
  cudaFree(other);
  return rc;
}

/* Makes, runs and compares. */
static void check_product(const gpu__gemm_spec_t *g, size_t shift, float factor)
{
  gpu__gemm_t *p = NULL;
  size_t scratch = 0;
  trial_t t;
  if (CT_ASSERT_OK(gpu__gemm_make(&dev, g, &p, &scratch))) return;
  trial_open(&t, g, shift, scratch);
  mean_all(&t, factor);
  CT_ASSERT_OK(run(&t, p, factor));
  CT_ASSERT_INT(wrong(&t), 0);
  trial_close(&t);
  gpu__gemm_free(p);
}

static gpu__gemm_spec_t dense(int64_t m, int64_t n, int64_t k)
{
  return (gpu__gemm_spec_t){.m = m, .n = n, .k = k, .batch = 1, .lda = k, .ldb = n, .ldc = n};
}

/* ---- tests ---- */

/* Both factors stored either way, rows apart, one matrix or a batch, in all types. */
static void layouts(void)
{
  static const ct_dtype_t types[][2] = {
      {CT_F32, CT_F32}, {CT_F16, CT_F16}, {CT_BF16, CT_BF16}, {CT_F16, CT_F32}, {CT_BF16, CT_F32}};
  fake_lt_reset();
  for (int i = 0; i < 5 * 16; i++) {
    gpu__gemm_spec_t g = dense(3, 5, 7);
    g.in = types[i / 16][0];
    g.out = types[i / 16][1];
    g.a_turned = i & 1;
    g.b_turned = i >> 1 & 1;
    if (g.a_turned) g.lda = g.m;
    if (g.b_turned) g.ldb = g.k;
    if (i & 4) {
      g.lda += 2;
      g.ldb += 3;
      g.ldc += 1;
    }
    if (i & 8) {
      g.batch = 4;
      g.step_a = 8 * g.lda + 4;
      g.step_b = 8 * g.ldb;
      g.step_c = 3 * g.ldc;
    }
    check_product(&g, 0, 0.5f);
  }
}

static void check_epilogues(void)
{
  static const ct_dtype_t types[] = {CT_F32, CT_F16, CT_BF16};
  for (int i = 0; i < 3 * 3; i++) {
    gpu__gemm_spec_t g = dense(6, 10, 9);
    g.in = g.out = types[i / 3];
    g.bias = i % 3 > 0;
    g.relu = i % 3 != 1;
    check_product(&g, 0, 1);
    g.bias = g.relu = 0;
    g.adds = 1;
    g.ldc = 10 * (1 + i % 3);
    check_product(&g, 0, 2);
    g.out = CT_F32;
    check_product(&g, 0, 1);
    g.out = g.in;
    g.ldc = 10;
    g.bias = i % 3 > 0;
    g.relu = i % 3 != 1;
    check_product(&g, 0, 1);
  }
}

/* Also where the library has no algorithm that adds a bias: a kernel does. */
static void bias_relu_and_sums(void)
{
  fake_lt_reset();
  check_epilogues();
  fake_lt.no_bias = 1;
  check_epilogues();
  apart = 1;
  check_epilogues();
  fake_lt.no_bias = 0;
  check_epilogues();
  apart = 0;
}

/* The library is told no more than what holds: here the fake refuses, there a GPU would fault. */
static void alignment(void)
{
  gpu__gemm_spec_t g = dense(4, 10, 64); /* ten classes */
  fake_lt_reset();
  g.in = g.out = CT_F16;
  check_product(&g, 0, 1);
  for (int i = 0; i < 4; i++)
    CT_ASSERT_INT(fake_lt.align[i], 16);
  g.unaligned = GPU_GEMM_A | GPU_GEMM_B | GPU_GEMM_C;
  check_product(&g, 2, 1);
  for (int i = 0; i < 4; i++)
    CT_ASSERT_INT(fake_lt.align[i], 2);
  g.unaligned = GPU_GEMM_A;
  check_product(&g, 0, 1);
  for (int i = 0; i < 4; i++)
    CT_ASSERT_INT(fake_lt.align[i], i == 1 ? 2 : 16); /* the library's second factor is A */
  g = dense(3, 4, 5);
  g.batch = 2;
  g.step_a = 16;
  g.step_b = 22; /* 88 bytes */
  g.step_c = 13; /* 52 bytes */
  check_product(&g, 0, 1);
  CT_ASSERT_INT(fake_lt.align[0], 8); /* the library's first factor is B */
  CT_ASSERT_INT(fake_lt.align[1], 16);
  CT_ASSERT_INT(fake_lt.align[2], 4);
  CT_ASSERT_INT(fake_lt.align[3], 4);
}

static cublasComputeType_t compute_of(ct_dtype_t type, int tf32)
{
  gpu__gemm_spec_t g = dense(2, 3, 4);
  g.in = g.out = type;
  dev.tf32 = tf32;
  check_product(&g, 0, 1);
  dev.tf32 = 0;
  return fake_lt.compute;
}

static void arithmetic(void)
{
  fake_lt_reset();
  CT_ASSERT_INT(compute_of(CT_F32, 0), CUBLAS_COMPUTE_32F);
  CT_ASSERT_INT(compute_of(CT_F32, 1), CUBLAS_COMPUTE_32F_FAST_TF32);
  CT_ASSERT_INT(compute_of(CT_F16, 1), CUBLAS_COMPUTE_32F);
  CT_ASSERT_INT(compute_of(CT_BF16, 0), CUBLAS_COMPUTE_32F);
  CT_ASSERT_INT(fake_lt.reduction, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  CT_ASSERT_INT(fake_lt.workspace, 32 << 20);
}

/* Which algorithm runs, with dev->autotune. */
static int tuned(int fastest, int broken)
{
  gpu__gemm_spec_t g = dense(4, 6, 5);
  fake_lt.found = 4;
  fake_lt.fastest = fastest;
  fake_lt.broken = broken;
  dev.autotune = 1;
  check_product(&g, 0, 1);
  dev.autotune = 0;
  return fake_lt.ran;
}

static void the_fastest_is_kept(void)
{
  gpu__gemm_spec_t g = dense(4, 6, 5);
  fake_lt_reset();
  fake_lt.found = 4;
  check_product(&g, 0, 1);
  CT_ASSERT_INT(fake_lt.asked, 1); /* nothing is measured unasked */
  CT_ASSERT_INT(fake_lt.runs, 1);
  CT_ASSERT_INT(tuned(2, -1), 2);
  CT_ASSERT_INT(fake_lt.asked, 8);
  CT_ASSERT_INT(tuned(3, 0), 3);
  CT_ASSERT_INT(tuned(0, -1), 0);
  fake_lt.unsound = 0;
  CU_ASSERT(tuned(0, -1) != 0);
}

/* A later process computes with the same algorithm, without asking, unless the library rejects
 * it. */
static void a_choice_is_kept(void)
{
  char dir[CT_PATH_MAX];
  snprintf(dir, sizeof dir, "%s/choices", ct_test_dir());
  fake_lt_reset();
  for (int process = 0; process < 3; process++) {
    CT_ASSERT_OK(gpu__choices_open("a GPU", dir, &dev.choices));
    fake_lt.asked = 0;
    CT_ASSERT_INT(tuned(process ? 3 : 2, process < 2 ? -1 : 2), process < 2 ? 2 : 3);
    if (process == 1) CT_ASSERT_INT(fake_lt.asked, 0);
    fake_lt.unsound = process == 1 ? 2 : -1;
    gpu__choices_save(dev.choices);
    gpu__choices_close(dev.choices);
    dev.choices = NULL;
  }
  fake_lt_reset();
}

/* No memory to measure in: the first choice. */
static void without_memory_nothing_is_measured(void)
{
  gpu__gemm_t *p = NULL;
  size_t scratch = 1;
  gpu__gemm_spec_t g = dense(4, 6, 5);
  fake_lt_reset();
  fake_lt.found = 4;
  dev.autotune = 1;
  setenv("CTRAIN_FAKE_CUDA_FAIL", "cudaMalloc:1:2", 1);
  fake_cuda_reset();
  CT_ASSERT_OK(gpu__gemm_make(&dev, &g, &p, &scratch));
  CT_ASSERT_INT(fake_lt.runs, 0);
  CT_ASSERT_INT(scratch, 0);
  CT_ASSERT_INT(cudaGetLastError(), cudaSuccess);
  gpu__gemm_free(p);
  dev.autotune = 0;
  unsetenv("CTRAIN_FAKE_CUDA_FAIL");
  fake_cuda_reset();
}

/* The sum over nothing is zero; a result of nothing is nothing.  The library is not asked. */
static void nothing(void)
{
  gpu__gemm_spec_t g = dense(3, 4, 0);
  fake_lt_reset();
  check_product(&g, 0, 1);
  g.adds = 1;
  check_product(&g, 0, 1);
  apart = 1;
  check_product(&g, 0, 1);
  apart = 0;
  g = dense(0, 4, 5);
  check_product(&g, 0, 1);
  CT_ASSERT_INT(fake_lt.asked, 0);
}

static void refuse(gpu__gemm_spec_t g, const char *word)
{
  gpu__gemm_t *p = NULL;
  size_t scratch;
  CT_ASSERT_FAILS(gpu__gemm_make(&dev, &g, &p, &scratch), CT_ERR_ARG, word);
  CU_ASSERT(p == NULL);
}

static void what_makes_no_sense_is_refused(void)
{
  gpu__gemm_spec_t g = dense(3, 4, 5);
  const gpu__gemm_spec_t good = g;
  fake_lt_reset();
  g.lda = 4;
  refuse(g, "lda");
  g.a_turned = 1; /* rows of 3 */
  check_product(&g, 0, 1);
  g = good;
  g.b_turned = 1;
  refuse(g, "ldb");
  g = good;
  g.ldc = 3;
  refuse(g, "ldc");
  g = good;
  g.batch = -1;
  refuse(g, "negative");
  g = good;
  g.in = CT_F16;
  g.out = CT_BF16;
  refuse(g, "types");
  g.out = CT_F32;
  g.bias = 1;
  refuse(g, "bias");
  g = good;
  g.relu = 1;
  g.ldc = 6;
  refuse(g, "ReLU");
}

/* Each call of the library fails once: an error, and nothing is left behind. */
static void failures(void)
{
  gpu__gemm_spec_t g = dense(3, 4, 5);
  int64_t live = ct_mem_live();
  int call = 0, rc;
  fake_lt_reset();
  g.bias = 1;
  do {
    gpu__gemm_t *p = NULL;
    size_t scratch;
    fake_lt.fail_call = ++call;
    rc = gpu__gemm_make(&dev, &g, &p, &scratch);
    CU_ASSERT((rc == CT_OK) == (p != NULL));
    gpu__gemm_free(p);
    CT_ASSERT_INT(fake_lt.alive, 0);
    CT_ASSERT_INT(ct_mem_live(), live);
  } while (rc != CT_OK && call < 100);
  CU_ASSERT(call > 15 && call < 100);
  fake_lt_reset();
  fake_lt.found = 0;
  gpu__gemm_t *p = NULL;
  size_t scratch;
  CT_ASSERT_FAILS(gpu__gemm_make(&dev, &g, &p, &scratch), CT_ERR_UNSUP, "3 x 4 x 5");
}

static void all_is_given_back(void)
{
  CT_ASSERT_INT(fake_lt.alive, 0);
  CT_ASSERT_INT(fake_cuda_alive(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(layouts),
      CT_TEST(bias_relu_and_sums),
      CT_TEST(alignment),
      CT_TEST(arithmetic),
      CT_TEST(the_fastest_is_kept),
      CT_TEST(a_choice_is_kept),
      CT_TEST(without_memory_nothing_is_measured),
      CT_TEST(nothing),
      CT_TEST(what_makes_no_sense_is_refused),
      CT_TEST(failures),
      CT_TEST(all_is_given_back),
      CT_TEST_END,
  };
  if (cublasLtCreate(&libraries.lt) != CUBLAS_STATUS_SUCCESS) return 1;
  fake_lt.alive = 0;
  int status = ct_test_main("products of matrices", tests, argc, argv);
  cublasLtDestroy(libraries.lt);
  return status;
}
