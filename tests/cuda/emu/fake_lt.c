/* A fake cuBLASLt: descriptors are plain structs, the heuristic returns the algorithms that a test
 * configures, and the GEMM is three loops that run as an action of the fake runtime's stream. */
#include "tests/cuda/emu/fake_lt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"

fake_lt_t fake_lt;

void fake_lt_reset(void)
{
  fake_lt = (fake_lt_t){.found = 1, .broken = -1, .unsound = -1, .alive = fake_lt.alive};
}

double fake_lt_get(ct_dtype_t type, const void *p, int64_t i)
{
  return ct__ref_get(type, p, i);
}

void fake_lt_set(ct_dtype_t type, void *p, int64_t i, double v)
{
  ct__ref_set(type, p, i, v);
}

static int fails(void)
{
  return fake_lt.fail_call > 0 && --fake_lt.fail_call == 0;
}

/* ---- descriptors ---- */

/* What a pointer of the program is; each struct starts with it.  A destroyed one stays in memory,
 * so that its use is noticed. */
typedef enum { HANDLE = 0x1d01, LAYOUT, DESC, PREFERENCE, DESTROYED } kind_t;

typedef struct layout {
  kind_t kind;
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld, step;
  int32_t batch;
} layout_t;

typedef struct desc {
  kind_t kind;
  cublasComputeType_t compute;
  int32_t turned[2];
  uint32_t epilogue;
  const void *bias;
} desc_t;

typedef struct preference {
  kind_t kind;
  uint64_t workspace;
  uint32_t reduction, align[4];
} preference_t;

static cublasStatus_t create(void *out, const void *value, size_t size)
{
  if (fails()) return CUBLAS_STATUS_ALLOC_FAILED;
  void *p = malloc(size);
  memcpy(p, value, size);
  memcpy(out, &p, sizeof p);
  fake_lt.alive++;
  return CUBLAS_STATUS_SUCCESS;
}

static int is(const void *p, kind_t kind)
{
  return p && *(const kind_t *)p == kind;
}

static cublasStatus_t destroy(void *p, kind_t kind)
{
  static void *destroyed[4096]; /* reachable, so that they are not leaks */
  static int count;
  if (!is(p, kind)) return CUBLAS_STATUS_INVALID_VALUE;
  *(kind_t *)p = DESTROYED;
  free(destroyed[count % 4096]);
  destroyed[count++ % 4096] = p;
  fake_lt.alive--;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
  kind_t handle = HANDLE;
  if (fake_cuda_library("cublasLtCreate") != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  return create(out, &handle, sizeof handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt)
{
  return destroy(lt, HANDLE);
}

/* Sets an attribute of `size` bytes; fails for an unknown one (to is NULL). */
static cublasStatus_t set(void *to, size_t size, const void *from, size_t given)
{
  if (!to || size != given || fails()) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
  layout_t l = {.kind = LAYOUT, .type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
  if (rows == 0 || cols == 0 || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
  return create(out, &l, sizeof l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
  return destroy(l, LAYOUT);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t size)
{
  layout_t *l = (layout_t *)layout;
  if (!is(l, LAYOUT)) return CUBLAS_STATUS_INVALID_VALUE;
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(&l->batch, sizeof l->batch, value, size);
  if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(&l->step, sizeof l->step, value, size);
  return set(NULL, 0, value, size);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
  desc_t d = {.kind = DESC, .compute = compute, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  fake_lt.compute = compute;
  return create(out, &d, sizeof d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
  return destroy(d, DESC);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
  desc_t *d = (desc_t *)desc;
  if (!is(d, DESC)) return CUBLAS_STATUS_INVALID_VALUE;
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) return set(&d->turned[0], sizeof(int32_t), value, size);
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) return set(&d->turned[1], sizeof(int32_t), value, size);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE)
    return set(&d->epilogue, sizeof d->epilogue, value, size);
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(&d->bias, sizeof d->bias, value, size);
  return set(NULL, 0, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
  preference_t p = {.kind = PREFERENCE,
                    .reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                    .align = {256, 256, 256, 256}};
  return create(out, &p, sizeof p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
  return destroy(p, PREFERENCE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size)
{
  preference_t *p = (preference_t *)preference;
  if (!is(p, PREFERENCE)) return CUBLAS_STATUS_INVALID_VALUE;
  switch (what) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return set(&p->workspace, sizeof p->workspace, value, size);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return set(&p->reduction, sizeof p->reduction, value, size);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return set(&p->align[0], sizeof p->align[0], value, size);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return set(&p->align[1], sizeof p->align[1], value, size);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return set(&p->align[2], sizeof p->align[2], value, size);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(&p->align[3], sizeof p->align[3], value, size);
  default:
    return set(NULL, 0, value, size);
  }
}

/* ---- GEMM ---- */

/* Arguments of one GEMM, copied into the stream. */
typedef struct job {
  desc_t desc;
  layout_t a, b, d;
  float alpha, beta;
  const void *a_at, *b_at, *c_at;
  void *d_at, *workspace;
  size_t workspace_bytes;
  int algorithm;
} job_t;

static ct_dtype_t dtype(const layout_t *l)
{
  return l->type == CUDA_R_32F ? CT_F32 : l->type == CUDA_R_16BF ? CT_BF16 : CT_F16;
}

static uint64_t rows_of(const layout_t *l, int32_t turned)
{
  return turned == CUBLAS_OP_T ? l->cols : l->rows;
}

static uint64_t cols_of(const layout_t *l, int32_t turned)
{
  return turned == CUBLAS_OP_T ? l->rows : l->cols;
}

/* Returns the elements between the first and the last one of a batch, and one. */
static uint64_t extent(const layout_t *l)
{
  return (uint64_t)(l->batch - 1) * (uint64_t)l->step + (l->cols - 1) * (uint64_t)l->ld + l->rows;
}

/* Returns 1 if the matrices of a batch do not share elements. */
static int are_apart(const layout_t *l)
{
  return l->batch == 1 || l->step >= (int64_t)((l->cols - 1) * (uint64_t)l->ld + l->rows);
}

/* Returns 1 if the types can be combined: those of table "supported data types" with the compute
 * types of 32 bits. */
static int is_combination(const desc_t *k, const layout_t *a, const layout_t *d)
{
  int known = a->type == CUDA_R_32F || a->type == CUDA_R_16F || a->type == CUDA_R_16BF;
  int tf32 = k->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return known && (k->compute == CUBLAS_COMPUTE_32F || (tf32 && a->type == CUDA_R_32F)) &&
         (k->epilogue == CUBLASLT_EPILOGUE_DEFAULT || k->epilogue == CUBLASLT_EPILOGUE_BIAS) &&
         are_apart(d);
}

/* Returns a number that differs, most probably, if an algorithm was chosen for another problem. */
static uint64_t problem_of(const desc_t *k, const layout_t *a, const layout_t *b, const layout_t *d)
{
  const layout_t *all[] = {a, b, d};
  uint64_t sum = (uint64_t)k->compute * 31 + (uint64_t)k->turned[0] * 7 + (uint64_t)k->turned[1];
  sum = sum * 31 + k->epilogue;
  for (int i = 0; i < 3; i++) {
    const uint64_t of[] = {(uint64_t)all[i]->type, all[i]->rows,           all[i]->cols,
                           (uint64_t)all[i]->ld,   (uint64_t)all[i]->step, (uint64_t)all[i]->batch};
    for (int m = 0; m < 6; m++)
      sum = (sum ^ of[m]) * 0x100000001b3u;
  }
  return sum;
}

static int is_sound(const desc_t *k, const layout_t *a, const layout_t *b, const layout_t *d)
{
  int fits = rows_of(a, k->turned[0]) == d->rows && cols_of(b, k->turned[1]) == d->cols &&
             cols_of(a, k->turned[0]) == rows_of(b, k->turned[1]);
  int types = a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F);
  return fits && types && a->ld >= (int64_t)a->rows && b->ld >= (int64_t)b->rows &&
         d->ld >= (int64_t)d->rows && a->batch == b->batch && a->batch == d->batch && a->rows > 0 &&
         a->cols > 0 && b->cols > 0;
}

static double element(const layout_t *l, const void *at, int batch, int32_t turned, uint64_t row,
                      uint64_t col)
{
  int64_t r = (int64_t)(turned == CUBLAS_OP_T ? col : row);
  int64_t c = (int64_t)(turned == CUBLAS_OP_T ? row : col);
  return ct__ref_get(dtype(l), at, batch * l->step + c * l->ld + r);
}

static void one_element(const job_t *j, int batch, uint64_t row, uint64_t col)
{
  int64_t at = batch * j->d.step + (int64_t)col * j->d.ld + (int64_t)row;
  float sum = 0;
  for (uint64_t k = 0; k < cols_of(&j->a, j->desc.turned[0]); k++)
    sum += (float)(element(&j->a, j->a_at, batch, j->desc.turned[0], row, k) *
                   element(&j->b, j->b_at, batch, j->desc.turned[1], k, col));
  double v = (double)j->alpha * sum;
  if (j->beta != 0) v += (double)j->beta * ct__ref_get(dtype(&j->d), j->c_at, at);
  if (j->desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
    v += ct__ref_get(dtype(&j->d), j->desc.bias, (int64_t)row);
  ct__ref_set(dtype(&j->d), j->d_at, at, v);
}

/* Tells the fake runtime which columns of a matrix are read or written. */
static void tell_columns(const layout_t *l, const void *at, int writes)
{
  size_t size = ct_dtype_size(dtype(l));
  for (int batch = 0; batch < l->batch; batch++)
    for (uint64_t col = 0; col < l->cols; col++)
      fake_cuda_access((const char *)at + (size_t)(batch * l->step + (int64_t)col * l->ld) * size,
                       (size_t)l->rows * size, writes);
}

static cudaError_t work(void *args)
{
  const job_t *j = args;
  if (j->workspace_bytes > 0) memset(j->workspace, 0xff, j->workspace_bytes);
  fake_cuda_access(j->workspace, j->workspace_bytes, 1);
  tell_columns(&j->a, j->a_at, 0);
  tell_columns(&j->b, j->b_at, 0);
  tell_columns(&j->d, j->d_at, 1);
  for (int batch = 0; batch < j->d.batch; batch++)
    for (uint64_t col = 0; col < j->d.cols; col++)
      for (uint64_t row = 0; row < j->d.rows; row++)
        one_element(j, batch, row, col);
  struct timespec slow = {.tv_nsec = 1000000};
  if (j->algorithm != fake_lt.fastest && fake_lt.found > 1) nanosleep(&slow, NULL);
  return cudaSuccess;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lt, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int want,
                                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
  const preference_t *p = (preference_t *)preference;
  const desc_t *k = (desc_t *)desc;
  if (!is(lt, HANDLE)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is(desc, DESC) || !is(a, LAYOUT) || !is(b, LAYOUT) || !is(d, LAYOUT) ||
      !is(preference, PREFERENCE) || want <= 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (fails() || !is_combination(k, (layout_t *)a, (layout_t *)d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c != d || !is_sound(k, (layout_t *)a, (layout_t *)b, (layout_t *)d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (k->epilogue == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)k->bias % 32 != 16)
    return CUBLAS_STATUS_INVALID_VALUE; /* would assume an alignment of more than 16 bytes */
  fake_lt.asked = want;
  fake_lt.workspace = p->workspace;
  fake_lt.reduction = p->reduction;
  memcpy(fake_lt.align, p->align, sizeof p->align);
  *count = want < fake_lt.found ? want : fake_lt.found;
  if (fake_lt.no_bias && k->epilogue == CUBLASLT_EPILOGUE_BIAS) *count = 0;
  for (int i = 0; i < *count; i++) {
    found[i] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = (size_t)i * FAKE_LT_WORKSPACE,
                                                 .state = CUBLAS_STATUS_SUCCESS};
    if (i == fake_lt.unsound) found[i].state = CUBLAS_STATUS_NOT_SUPPORTED;
    found[i].algo.data[0] = (uint64_t)i;
    for (int m = 0; m < 4; m++)
      found[i].algo.data[1 + m] = p->align[m];
    found[i].algo.data[5] = problem_of(k, (layout_t *)a, (layout_t *)b, (layout_t *)d);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lt, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
  (void)lt;
  if (fails() || c != d || !is_sound((desc_t *)desc, (layout_t *)a, (layout_t *)b, (layout_t *)d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algo->data[0] >= (uint64_t)fake_lt.found || (int)algo->data[0] == fake_lt.unsound)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->workspaceSize = (size_t)algo->data[0] * FAKE_LT_WORKSPACE;
  return CUBLAS_STATUS_SUCCESS;
}

static int is_aligned(const void *p, uint64_t align)
{
  return (uintptr_t)p % align == 0;
}

/* Returns 1 if all matrices of the batch are aligned. */
static int all_aligned(const layout_t *l, const void *p, uint64_t align)
{
  uint64_t step = (uint64_t)l->step * ct_dtype_size(dtype(l));
  return is_aligned(p, align) && (l->batch == 1 || step % align == 0);
}

/* Returns 1 if the library may use these pointers.  The result may be where C is, but not where A
 * or B are. */
static int are_apart_from(const job_t *j)
{
  const char *d = j->d_at, *d_end = d + extent(&j->d) * ct_dtype_size(dtype(&j->d));
  const char *a = j->a_at, *a_end = a + extent(&j->a) * ct_dtype_size(dtype(&j->a));
  const char *b = j->b_at, *b_end = b + extent(&j->b) * ct_dtype_size(dtype(&j->b));
  const char *w = j->workspace, *w_end = w + j->workspace_bytes;
  return a && b && d && (a_end <= d || d_end <= a) && (b_end <= d || d_end <= b) &&
         (w == w_end ||
          ((w_end <= d || d_end <= w) && (w_end <= a || a_end <= w) && (w_end <= b || b_end <= w)));
}

/* Returns 1 if C is D, or does not overlap it. */
static int is_apart(const job_t *j)
{
  const char *c = j->c_at, *d = j->d_at;
  size_t bytes = (size_t)extent(&j->d) * ct_dtype_size(dtype(&j->d));
  return c == d || c + bytes <= d || d + bytes <= c;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lt, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
  if (!is(lt, HANDLE)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is(desc, DESC) || !is(a_layout, LAYOUT) || !is(b_layout, LAYOUT) || !is(d_layout, LAYOUT))
    return CUBLAS_STATUS_INVALID_VALUE;
  job_t j = {.desc = *(desc_t *)desc,
             .a = *(layout_t *)a_layout,
             .b = *(layout_t *)b_layout,
             .d = *(layout_t *)d_layout,
             .alpha = *(const float *)alpha,
             .beta = *(const float *)beta,
             .a_at = a,
             .b_at = b,
             .c_at = c,
             .d_at = d,
             .workspace = workspace,
             .workspace_bytes = workspace_bytes,
             .algorithm = (int)algo->data[0]};
  if (fails() || j.algorithm == fake_lt.broken) return CUBLAS_STATUS_EXECUTION_FAILED;
  int sound = is_apart(&j) && c_layout == d_layout && is_sound(&j.desc, &j.a, &j.b, &j.d) &&
              all_aligned(&j.a, a, algo->data[1]) && all_aligned(&j.b, b, algo->data[2]) &&
              all_aligned(&j.d, c, algo->data[3]) && all_aligned(&j.d, d, algo->data[4]) &&
              is_aligned(workspace, 256) && workspace_bytes >= algo->data[0] * FAKE_LT_WORKSPACE;
  if (j.desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
    sound &= j.desc.bias && is_aligned(j.desc.bias, 16);
  if (!sound || !are_apart_from(&j)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algo->data[5] != problem_of(&j.desc, &j.a, &j.b, &j.d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  fake_lt.runs++;
  fake_lt.ran = j.algorithm;
  return fake_cuda_work(stream, work, &j, sizeof j) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
