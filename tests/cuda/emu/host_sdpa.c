/* Attention as plain loops; replaces cuda/attention/sdpa_dnn.c in the emulated module. Like cuDNN
 * it takes bf16 and fp16 and heads of some sizes only, rounds the factors of its products, and
 * needs aligned pointers and scratch memory, all of which it overwrites. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/gemm_conv.h"
#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"

enum { SCRATCH = 1000 };

struct gpu__sdpa {
  ct_dtype_t type;
  gpu__attention_t a;
};

/* Arguments of one run, copied into the stream. dqkv NULL: forward. */
typedef struct job {
  gpu__sdpa_t how;
  const void *qkv, *dc;
  void *c, *dqkv, *scratch;
  float *stats, *sums;
} job_t;

/* One head of a sample; tensors of the head are dense. */
typedef struct head {
  double *q, *k, *v, *c, *dc, *p, *dp, *dq, *dk, *dv;
} head_t;

int gpu__sdpa_make(ct_dev_t *dev, ct_dtype_t type, const gpu__attention_t *a, int back,
                   gpu__sdpa_t **out, size_t *scratch)
{
  (void)dev;
  (void)back;
  *out = NULL;
  *scratch = SCRATCH;
  if (type == CT_F32 || a->wide % 8 != 0 || a->wide > 128 || a->t < 2 || a->n == 0) return CT_OK;
  *out = ct_mem_alloc(sizeof **out, "attention");
  if (!*out) return CT_ERR_NOMEM;
  **out = (gpu__sdpa_t){type, *a};
  return CT_OK;
}

void gpu__sdpa_free(gpu__sdpa_t *p)
{
  ct_mem_free(p);
}

/* Copies a head from a tensor with `parts` parts per token to dense rows, or (to_rows 0) back. */
static void move_rows(const gpu__sdpa_t *p, void *tensor, int64_t head, int parts, int part,
                      double *rows, int to_rows)
{
  const gpu__attention_t *a = &p->a;
  for (int64_t i = 0; i < a->t * a->wide; i++) {
    int64_t token = head / a->heads * a->t + i / a->wide;
    int64_t at = ((token * parts + part) * a->heads + head % a->heads) * a->wide + i % a->wide;
    if (to_rows)
      rows[i] = ct__ref_get(p->type, tensor, at);
    else
      ct__ref_set(p->type, tensor, at, (float)rows[i]);
  }
}

static double rounded(const gpu__sdpa_t *p, double v)
{
  float room;
  ct__ref_set(p->type, &room, 0, (float)v);
  return ct__ref_get(p->type, &room, 0);
}

/* c[m,n] = sum of a[m,k] b[k,n], where turned factors are stored [k,m] and [n,k]. */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, int a_turned,
                     const double *b, int b_turned, double *c)
{
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      c[i * n + j] = 0;
      for (int64_t l = 0; l < k; l++)
        c[i * n + j] += a[a_turned ? l * m + i : i * k + l] * b[b_turned ? j * k + l : l * n + j];
    }
}

static void attend(const job_t *j, const head_t *h, int64_t head)
{
  int64_t t = j->how.a.t;
  for (int64_t r = 0; r < t; r++) {
    double *p = h->p + r * t, most = p[0], sum = 0;
    for (int64_t i = 1; i < t; i++)
      most = fmax(most, p[i]);
    for (int64_t i = 0; i < t; i++)
      sum += exp(p[i] - most);
    j->stats[head * t + r] = (float)(most + log(sum));
    for (int64_t i = 0; i < t; i++)
      p[i] = rounded(&j->how, exp(p[i] - most) / sum);
  }
  multiply(t, j->how.a.wide, t, h->p, 0, h->v, 0, h->c);
}

static void attend_backward(const job_t *j, const head_t *h, int64_t head)
{
  int64_t t = j->how.a.t, wide = j->how.a.wide;
  double scale = 1 / sqrt((double)wide);
  multiply(t, t, wide, h->dc, 0, h->v, 1, h->dp);
  for (int64_t r = 0; r < t; r++) {
    double sum = 0;
    for (int64_t i = 0; i < wide; i++)
      sum += h->c[r * wide + i] * h->dc[r * wide + i];
    j->sums[head * t + r] = (float)sum;
    for (int64_t i = r * t; i < (r + 1) * t; i++) {
      double p = exp(h->p[i] - j->stats[head * t + r]);
      h->dp[i] = rounded(&j->how, p * (h->dp[i] - sum) * scale);
      h->p[i] = rounded(&j->how, p);
    }
  }
  multiply(t, wide, t, h->p, 1, h->dc, 0, h->dv);
  multiply(t, wide, t, h->dp, 0, h->k, 0, h->dq);
  multiply(t, wide, t, h->dp, 1, h->q, 0, h->dk);
}

static void one_head(const job_t *j, const head_t *h, int64_t head)
{
  const gpu__sdpa_t *p = &j->how;
  int64_t t = p->a.t, wide = p->a.wide;
  void *qkv = (void *)(uintptr_t)j->qkv, *dc = (void *)(uintptr_t)j->dc;
  move_rows(p, qkv, head, 3, 0, h->q, 1);
  move_rows(p, qkv, head, 3, 1, h->k, 1);
  move_rows(p, qkv, head, 3, 2, h->v, 1);
  multiply(t, t, wide, h->q, 0, h->k, 1, h->p);
  for (int64_t i = 0; i < t * t; i++)
    h->p[i] /= sqrt((double)wide);
  if (!j->dqkv) {
    attend(j, h, head);
    move_rows(p, j->c, head, 1, 0, h->c, 0);
    return;
  }
  move_rows(p, j->c, head, 1, 0, h->c, 1);
  move_rows(p, dc, head, 1, 0, h->dc, 1);
  attend_backward(j, h, head);
  move_rows(p, j->dqkv, head, 3, 0, h->dq, 0);
  move_rows(p, j->dqkv, head, 3, 1, h->dk, 0);
  move_rows(p, j->dqkv, head, 3, 2, h->dv, 0);
}

/* Memory allocated here is not counted by the project's allocator, as in a library. */
static cudaError_t work(void *args)
{
  const job_t *j = args;
  int64_t t = j->how.a.t, rows = t * j->how.a.wide;
  double *m = malloc((size_t)(8 * rows + 2 * t * t) * sizeof *m);
  if (!m) return cudaErrorMemoryAllocation;
  head_t h = {m,
              m + rows,
              m + 2 * rows,
              m + 3 * rows,
              m + 4 * rows,
              m + 8 * rows,
              m + 8 * rows + t * t,
              m + 5 * rows,
              m + 6 * rows,
              m + 7 * rows};
  memset(j->scratch, 0xff, SCRATCH);
  for (int64_t head = 0; head < j->how.a.n * j->how.a.heads; head++)
    one_head(j, &h, head);
  free(m);
  return cudaSuccess;
}

static int is_aligned(const void *p)
{
  return (uintptr_t)p % 16 == 0;
}

static int enqueue(const job_t *j, cudaStream_t s)
{
  if (!is_aligned(j->qkv) || !is_aligned(j->c) || !is_aligned(j->dc) || !is_aligned(j->dqkv) ||
      !is_aligned(j->stats) || !is_aligned(j->sums))
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "attention: a pointer is not aligned");
  if (fake_cuda_work(s, work, j, sizeof *j) == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "attention could not be enqueued");
}

int gpu__sdpa_forward(gpu__sdpa_t *p, const void *qkv, void *c, float *stats, void *scratch,
                      cudaStream_t s)
{
  job_t j = {.how = *p, .qkv = qkv, .c = c, .stats = stats, .scratch = scratch};
  return enqueue(&j, s);
}

int gpu__sdpa_backward(gpu__sdpa_t *p, const void *qkv, const void *c, const void *dc,
                       const float *stats, float *sums, void *dqkv, void *scratch, cudaStream_t s)
{
  job_t j = {.how = *p,
             .qkv = qkv,
             .dc = dc,
             .c = (void *)(uintptr_t)c,
             .dqkv = dqkv,
             .scratch = scratch,
             .stats = (float *)(uintptr_t)stats,
             .sums = sums};
  return enqueue(&j, s);
}
