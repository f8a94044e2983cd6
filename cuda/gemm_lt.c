/* Matrix products with cuBLASLt.
 *
 * Accumulation is in float32; float32 factors are first rounded to TF32 if the device was opened
 * with tf32. A sum over k may be split between blocks only if the parts are written to the
 * workspace and added by a separate kernel (reduction scheme COMPUTE_TYPE), which has a fixed order
 * in float32. Other schemes, which add to C in arrival order or round the parts to C's type, are
 * excluded.
 *
 * The library adds the bias if one of its algorithms supports that, else a kernel of ours adds it.
 * The ReLU is always applied by a kernel of ours, since the library does not specify what its own
 * ReLU does with NaN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/gemm_map.h"
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"
#include "cuda/library_handles.h"
#include "cuda/stopwatch.h"
#include "base/ct_mem.h"

enum {
  CHOICES = 8,                /* heuristic proposals benchmarked with dev->autotune */
  REPEATS = 5,                /* runs per benchmark */
  KEY_CAP = 320,              /* of a choice, with the end */
  WORKSPACE_LIMIT = 32 << 20, /* bytes */
  WORKSPACE_ALIGN = 256       /* required by cublasLtMatmul() */
};

struct gpu__gemm {
  cublasLtHandle_t lt; /* borrowed */
  gpu__gemm_spec_t spec;
  int fused;                 /* 1: the library adds the bias */
  cublasLtMatmulDesc_t desc; /* NULL: the spec is empty */
  cublasLtMatrixLayout_t first, second, d;
  cublasLtMatmulAlgo_t algo;
  size_t workspace; /* bytes that algo needs */
};

static cudaDataType_t data_type(ct_dtype_t t)
{
  return t == CT_F32 ? CUDA_R_32F : t == CT_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* ---- descriptors ---- */

static int describe_matrix(const gpu__lt_matrix_t *m, int64_t batch, cublasLtMatrixLayout_t *out)
{
  int rc = CT_OK;
  int32_t count = (int32_t)batch;
  CT_TRY(GPU_LT_CHECK(cublasLtMatrixLayoutCreate(out, data_type(m->type), (uint64_t)m->rows,
                                                 (uint64_t)m->cols, m->ld)));
  CT_TRY(GPU_LT_CHECK(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                       &count, sizeof count)));
  CT_TRY(GPU_LT_CHECK(cublasLtMatrixLayoutSetAttribute(
      *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->step, sizeof m->step)));
out:
  return rc;
}

static int gemm_lt_set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                       const void *value, size_t size)
{
  return GPU_LT_CHECK(cublasLtMatmulDescSetAttribute(desc, what, value, size));
}

static int gemm_lt_describe(gpu__gemm_t *g, const gpu__lt_problem_t *p, int tf32)
{
  int rc = CT_OK;
  int32_t first = p->first.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t second = p->second.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  uint32_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  /* the heuristics do not read the bias, but need to know its alignment */
  const void *bias = (const void *)(uintptr_t)16;
  cublasComputeType_t compute =
      tf32 && p->first.type == CT_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  CT_TRY(GPU_LT_CHECK(cublasLtMatmulDescCreate(&g->desc, compute, CUDA_R_32F)));
  CT_TRY(gemm_lt_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  CT_TRY(gemm_lt_set(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  CT_TRY(gemm_lt_set(g->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  if (p->bias) CT_TRY(gemm_lt_set(g->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  CT_TRY(describe_matrix(&p->first, p->batch, &g->first));
  CT_TRY(describe_matrix(&p->second, p->batch, &g->second));
  CT_TRY(describe_matrix(&p->d, p->batch, &g->d));
out:
  return rc;
}

/* ---- algorithm selection ---- */

static int prefer(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t what,
                  uint32_t value)
{
  return GPU_LT_CHECK(cublasLtMatmulPreferenceSetAttribute(pref, what, &value, sizeof value));
}

/* Removes proposals that the heuristics marked as not supported. */
static int sound_ones(cublasLtMatmulHeuristicResult_t *found, int count)
{
  int sound = 0;
  for (int i = 0; i < count; i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) found[sound++] = found[i];
  return sound;
}

/* Returns the proposals of the heuristics, best first; at least one. */
static int ask(const gpu__gemm_t *g, const gpu__lt_problem_t *p, int want,
               cublasLtMatmulHeuristicResult_t *found, int *count)
{
  int rc = CT_OK;
  uint64_t limit = WORKSPACE_LIMIT;
  uint32_t d_align = (uint32_t)p->d.align;
  cublasLtMatmulPreference_t pref = NULL;
  *count = 0;
  CT_TRY(GPU_LT_CHECK(cublasLtMatmulPreferenceCreate(&pref)));
  CT_TRY(GPU_LT_CHECK(cublasLtMatmulPreferenceSetAttribute(
      pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit)));
  CT_TRY(prefer(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  CT_TRY(prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)p->first.align));
  CT_TRY(prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)p->second.align));
  CT_TRY(prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d_align));
  CT_TRY(prefer(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d_align));
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(g->lt, g->desc, g->first, g->second, g->d,
                                                         g->d, pref, want, found, count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    *count = 0;
  else
    CT_TRY(GPU_LT_CHECK(status));
  *count = sound_ones(found, *count);
  if (*count == 0)
    CT_FAIL(CT_ERR_UNSUP, "cuBLASLt has no algorithm for a GEMM of %lld x %lld x %lld",
            (long long)g->spec.m, (long long)g->spec.n, (long long)g->spec.k);
out:
  if (pref) cublasLtMatmulPreferenceDestroy(pref);
  return rc;
}

static void gemm_lt_choose(gpu__gemm_t *g, const cublasLtMatmulHeuristicResult_t *choice)
{
  g->algo = choice->algo;
  g->workspace = choice->workspaceSize;
}

/* ---- benchmarks ---- */

/* Operands and a stopwatch for benchmarks. */
typedef struct bench {
  gpu__stopwatch_t watch;
  size_t at[5]; /* in its memory: bias, B, A, C, workspace */
} bench_t;

static size_t reserve(size_t *end, const gpu__lt_matrix_t *m, int64_t batch)
{
  size_t at = *end, bytes = (size_t)gpu__lt_extent(m, batch) * ct_dtype_size(m->type);
  *end += (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
  return at;
}

static int bench_open(bench_t *b, const gpu__lt_problem_t *p)
{
  size_t bytes = 0;
  gpu__lt_matrix_t bias = {.type = p->d.type, .rows = p->d.rows, .cols = 1, .ld = p->d.rows};
  *b = (bench_t){.at = {reserve(&bytes, &bias, 1)}};
  b->at[1] = reserve(&bytes, &p->first, p->batch);
  b->at[2] = reserve(&bytes, &p->second, p->batch);
  b->at[3] = reserve(&bytes, &p->d, p->batch);
  b->at[4] = bytes;
  bytes += WORKSPACE_LIMIT + WORKSPACE_ALIGN;
  return gpu__stopwatch_open(&b->watch, bytes);
}

/* Times the algorithm in g; a warm-up run is not counted. */
static int bench_run(bench_t *b, gpu__gemm_t *g, float *ms)
{
  int rc = CT_OK;
  char *m = b->watch.memory;
  for (int i = 0; i <= REPEATS; i++) {
    CT_TRY(gpu__gemm_run(g, 1, m + b->at[2], m + b->at[1], m + b->at[0], m + b->at[3], m + b->at[4],
                         b->watch.stream));
    if (i == 0) CT_TRY(gpu__stopwatch_start(&b->watch));
  }
  CT_TRY(gpu__stopwatch_stop(&b->watch, ms));
out:
  return rc;
}

/* Selects the fastest proposal. Proposals that fail are skipped; without enough memory for
 * benchmarks the first proposal stays. Returns 1 if proposals were measured. */
static int gemm_lt_measure(gpu__gemm_t *g, const gpu__lt_problem_t *p,
                           const cublasLtMatmulHeuristicResult_t *found, int count)
{
  float ms[CHOICES];
  bench_t b;
  if (count < 2) return 0;
  int opened = bench_open(&b, p) == CT_OK;
  for (int i = 0; i < count && opened; i++) {
    gemm_lt_choose(g, &found[i]);
    if (bench_run(&b, g, &ms[i]) != CT_OK) ms[i] = INFINITY;
  }
  int fastest = opened ? gpu__choices_fastest(ms, count) : -1;
  gemm_lt_choose(g, &found[fastest < 0 ? 0 : fastest]);
  gpu__stopwatch_close(&b.watch);
  return opened;
}

/* ---- choices of earlier benchmarks (choices.h) ---- */

/* Writes a text with everything that the choice depends on besides the device. */
static void gemm_lt_key(const gpu__gemm_t *g, const gpu__lt_problem_t *p, int tf32,
                        char key[KEY_CAP])
{
  const gpu__lt_matrix_t *m[] = {&p->first, &p->second, &p->d};
  int at = snprintf(key, KEY_CAP, "gemm%s%s%s", tf32 && p->first.type == CT_F32 ? ", tf32" : "",
                    g->spec.adds ? ", adds" : "", p->bias ? ", bias" : "");
  for (int i = 0; i < 3; i++)
    at += snprintf(key + at, KEY_CAP - (size_t)at, ", %s %lldx%lld%s ld %lld step %lld align %d",
                   ct_dtype_name(m[i]->type), (long long)m[i]->rows, (long long)m[i]->cols,
                   m[i]->turned ? " transposed" : "", (long long)m[i]->ld, (long long)m[i]->step,
                   m[i]->align);
  snprintf(key + at, KEY_CAP - (size_t)at, ", batch %lld", (long long)p->batch);
}

/* An algorithm descriptor may be stored and restored with the same version of the library
 * (cublasLt.h, cublasLtMatmulAlgo_t). */
static int gemm_lt_keep(const gpu__gemm_t *g, ct_dev_t *dev, const char *key, int timed)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  for (size_t i = 0; i < sizeof g->algo.data / sizeof *g->algo.data; i++)
    CT_TRY(ct_str_add(&text, "%016llx", (unsigned long long)g->algo.data[i]));
  CT_TRY(gpu__choices_add(dev->choices, key, text.data, timed));
out:
  ct_str_clear(&text);
  return rc;
}

/* Selects the algorithm of an earlier choice. Returns 1 if there is one, and the library accepts
 * it. */
static int gemm_lt_restore(gpu__gemm_t *g, const ct_dev_t *dev, const char *key)
{
  enum { WORDS = sizeof g->algo.data / sizeof *g->algo.data, DIGITS = 16 };
  const char *text = gpu__choices_find(dev->choices, key);
  cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_SUCCESS};
  if (!text || strlen(text) != WORDS * DIGITS) return 0;
  for (int i = 0; i < WORDS; i++) {
    char word[DIGITS + 1] = "", *end;
    memcpy(word, text + i * DIGITS, DIGITS);
    found.algo.data[i] = strtoull(word, &end, 16);
    if (*end) return 0;
  }
  if (cublasLtMatmulAlgoCheck(g->lt, g->desc, g->first, g->second, g->d, g->d, &found.algo,
                              &found) != CUBLAS_STATUS_SUCCESS ||
      found.state != CUBLAS_STATUS_SUCCESS || found.workspaceSize > WORKSPACE_LIMIT)
    return 0;
  gemm_lt_choose(g, &found);
  return 1;
}

/* ---- interface of gemm_conv.h ---- */

static void gemm_lt_forget(gpu__gemm_t *g)
{
  if (g->d) cublasLtMatrixLayoutDestroy(g->d);
  if (g->second) cublasLtMatrixLayoutDestroy(g->second);
  if (g->first) cublasLtMatrixLayoutDestroy(g->first);
  if (g->desc) cublasLtMatmulDescDestroy(g->desc);
  g->d = g->second = g->first = NULL;
  g->desc = NULL;
}

static int gemm_lt_find(gpu__gemm_t *g, ct_dev_t *dev, int fused)
{
  int rc = CT_OK, count = 0;
  char key[KEY_CAP];
  cublasLtMatmulHeuristicResult_t found[CHOICES];
  gpu__gemm_spec_t spec = g->spec;
  spec.bias = g->fused = fused;
  gpu__lt_problem_t p = gpu__gemm_problem(&spec);
  CT_TRY(gemm_lt_describe(g, &p, dev->tf32));
  gemm_lt_key(g, &p, dev->tf32, key);
  if (dev->autotune && gemm_lt_restore(g, dev, key)) return CT_OK;
  CT_TRY(ask(g, &p, dev->autotune ? CHOICES : 1, found, &count));
  gemm_lt_choose(g, &found[0]);
  int timed = gemm_lt_measure(g, &p, found, count);
  if (count > 1) CT_TRY(gemm_lt_keep(g, dev, key, timed));
out:
  return rc;
}

int gpu__gemm_make(ct_dev_t *dev, const gpu__gemm_spec_t *spec, gpu__gemm_t **out, size_t *scratch)
{
  int rc = CT_OK;
  gpu__gemm_t *g = NULL;
  *out = NULL;
  *scratch = 0;
  CT_TRY(gpu__gemm_check(spec));
  g = ct_mem_alloc(sizeof *g, "matrix product");
  if (!g) return CT_ERR_NOMEM;
  g->lt = dev->libraries->lt;
  g->spec = *spec;
  if (!gpu__gemm_is_empty(spec) && !dev->card) { /* a described device only needs the checks */
    rc = gemm_lt_find(g, dev, spec->bias);
    if (rc == CT_ERR_UNSUP && spec->bias && spec->ldc == spec->n) {
      gemm_lt_forget(g);
      rc = gemm_lt_find(g, dev, 0);
    }
    CT_TRY(rc);
    if (g->workspace > 0) *scratch = g->workspace + WORKSPACE_ALIGN;
  }
  *out = g;
  g = NULL;
out:
  gpu__gemm_free(g);
  return rc;
}

void gpu__gemm_free(gpu__gemm_t *g)
{
  if (!g) return;
  gemm_lt_forget(g);
  ct_mem_free(g);
}

/* Enqueues the result of an empty sum: zeros, or the other matrix. */
static int write_empty(const gpu__gemm_spec_t *g, const char *other, char *c, cudaStream_t s)
{
  int rc = CT_OK;
  size_t size = ct_dtype_size(g->out), bytes = (size_t)(g->m * g->n) * size;
  for (int64_t i = 0; i < g->batch && bytes > 0; i++) {
    size_t at = (size_t)(i * g->step_c) * size;
    if (!g->adds)
      GPU_TRY(cudaMemsetAsync(c + at, 0, bytes, s));
    else if (other != c)
      GPU_TRY(cudaMemcpyAsync(c + at, other + at, bytes, cudaMemcpyDeviceToDevice, s));
  }
out:
  return rc;
}

int gpu__gemm_run(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                  void *c, void *scratch, cudaStream_t s)
{
  return gpu__gemm_run_add(g, factor, a, b, bias, c, c, scratch, s);
}

int gpu__gemm_run_add(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                      const void *other, void *c, void *scratch, cudaStream_t s)
{
  int rc = CT_OK;
  float beta = g->spec.adds ? 1 : 0;
  uintptr_t end = (uintptr_t)scratch + WORKSPACE_ALIGN - 1;
  void *workspace = g->workspace > 0 ? (void *)(end - end % WORKSPACE_ALIGN) : NULL;
  if (!g->desc) return write_empty(&g->spec, other, c, s);
  if (g->fused) CT_TRY(gemm_lt_set(g->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  CT_TRY(GPU_LT_CHECK(cublasLtMatmul(g->lt, g->desc, &factor, b, g->first, a, g->second, &beta,
                                     other, g->d, c, g->d, &g->algo, workspace, g->workspace, s)));
  const void *behind = g->fused || !g->spec.bias ? NULL : bias;
  if (behind || g->spec.relu)
    GPU_TRY(gpu__bias_relu(g->spec.out, c, behind, g->spec.relu, g->spec.m, g->spec.n, s));
out:
  return rc;
}
