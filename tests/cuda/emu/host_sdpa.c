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

/* Arguments of one run, copied into the stream. */
typedef struct job {
  gpu__sdpa_t how;
  gpu__attention_io_t io;
  int back;
  void *scratch;
} job_t;

/* One head of a sample; tensors of the head are dense. */
typedef struct head {
  double *q, *k, *v, *c, *dc, *p, *dp, *dq, *dk, *dv;
} head_t;

int gpu__sdpa_make(ct_dev_t *dev, ct_dtype_t type, const gpu__attention_t *of, int back,
                   gpu__sdpa_t **out, size_t *scratch)
{
  gpu__attention_t a = gpu__attention_full(of);
  (void)dev;
  (void)back;
  *out = NULL;
  *scratch = SCRATCH;
  int rows = (a.q_row | a.k_row | a.v_row | a.y_row) % 8, shape = a.wide % 8 || a.wide > 128;
  if (type == CT_F32 || shape || rows || a.t < 2 || a.s < 2 || a.n == 0) return CT_OK;
  if (a.mask != CT_MASK_NONE || a.cached || a.values != a.wide) return CT_OK;
  *out = ct_mem_alloc(sizeof **out, "attention");
  if (!*out) return CT_ERR_NOMEM;
  **out = (gpu__sdpa_t){type, a};
  return CT_OK;
}

void gpu__sdpa_free(gpu__sdpa_t *p)
{
  ct_mem_free(p);
}

/* Copies a head from a tensor to dense rows, or (to_rows 0) back. */
static void move_rows(const gpu__sdpa_t *p, const void *tensor, int64_t head, int64_t heads,
                      int64_t length, int64_t row, double *rows, int to_rows)
{
  void *to = (void *)(uintptr_t)tensor;
  for (int64_t i = 0; i < length * p->a.wide; i++) {
    int64_t at = (head / heads * length + i / p->a.wide) * row + head % heads * p->a.wide;
    at += i % p->a.wide;
    if (to_rows)
      rows[i] = ct__ref_get(p->type, tensor, at);
    else
      ct__ref_set(p->type, to, at, (float)rows[i]);
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

static int64_t seen(const job_t *j, int64_t query)
{
  return j->how.a.causal && query + 1 < j->how.a.s ? query + 1 : j->how.a.s;
}

static void attend(const job_t *j, const head_t *h, int64_t head)
{
  int64_t t = j->how.a.t, s = j->how.a.s;
  for (int64_t r = 0; r < t; r++) {
    double *p = h->p + r * s, most = p[0], sum = 0;
    int64_t keys = seen(j, r);
    for (int64_t i = 1; i < keys; i++)
      most = fmax(most, p[i]);
    for (int64_t i = 0; i < keys; i++)
      sum += exp(p[i] - most);
    j->io.stats[head * t + r] = (float)(most + log(sum));
    for (int64_t i = 0; i < s; i++)
      p[i] = i < keys ? rounded(&j->how, exp(p[i] - most) / sum) : 0;
  }
  multiply(t, j->how.a.wide, s, h->p, 0, h->v, 0, h->c);
}

static void attend_backward(const job_t *j, const head_t *h, int64_t head)
{
  int64_t t = j->how.a.t, s = j->how.a.s, wide = j->how.a.wide;
  multiply(t, s, wide, h->dc, 0, h->v, 1, h->dp);
  for (int64_t r = 0; r < t; r++) {
    double sum = 0;
    for (int64_t i = 0; i < wide; i++)
      sum += h->c[r * wide + i] * h->dc[r * wide + i];
    j->io.sums[head * t + r] = (float)sum;
    for (int64_t i = r * s; i < (r + 1) * s; i++) {
      int meets = i - r * s < seen(j, r);
      double p = meets ? exp(h->p[i] - j->io.stats[head * t + r]) : 0;
      h->dp[i] = rounded(&j->how, p * (h->dp[i] - sum) * j->how.a.scale);
      h->p[i] = rounded(&j->how, p);
    }
  }
  multiply(s, wide, t, h->p, 1, h->dc, 0, h->v);
  multiply(t, wide, s, h->dp, 0, h->k, 0, h->dq);
  multiply(s, wide, t, h->dp, 1, h->q, 0, h->k);
  for (int64_t i = 0; i < s * wide; i++) { /* of the heads that share keys */
    h->dk[i] += h->k[i];
    h->dv[i] += h->v[i];
  }
}

/* Computes one head; of those that share keys and values, `last` stores their gradients. */
static void one_head(const job_t *j, const head_t *h, int64_t head)
{
  const gpu__sdpa_t *p = &j->how;
  const gpu__attention_t *a = &p->a;
  const gpu__attention_io_t *io = &j->io;
  int64_t t = a->t, s = a->s, group = a->heads / a->kv_heads, kv = head / group;
  move_rows(p, io->q, head, a->heads, t, a->q_row, h->q, 1);
  move_rows(p, io->k, kv, a->kv_heads, s, a->k_row, h->k, 1);
  move_rows(p, io->v, kv, a->kv_heads, s, a->v_row, h->v, 1);
  multiply(t, s, a->wide, h->q, 0, h->k, 1, h->p);
  for (int64_t i = 0; i < t * s; i++)
    h->p[i] *= a->scale;
  if (!j->back) {
    attend(j, h, head);
    move_rows(p, io->y, head, a->heads, t, a->y_row, h->c, 0);
    return;
  }
  for (int64_t i = 0; i < s * a->wide && head % group == 0; i++)
    h->dk[i] = h->dv[i] = 0;
  move_rows(p, io->y, head, a->heads, t, a->y_row, h->c, 1);
  move_rows(p, io->dy, head, a->heads, t, a->y_row, h->dc, 1);
  attend_backward(j, h, head);
  move_rows(p, io->dq, head, a->heads, t, a->q_row, h->dq, 0);
  if (head % group != group - 1) return;
  move_rows(p, io->dk, kv, a->kv_heads, s, a->k_row, h->dk, 0);
  move_rows(p, io->dv, kv, a->kv_heads, s, a->v_row, h->dv, 0);
}

/* Memory allocated here is not counted by the project's allocator, as in a library. */
static cudaError_t work(void *args)
{
  const job_t *j = args;
  int64_t t = j->how.a.t, s = j->how.a.s, rows = (t > s ? t : s) * j->how.a.wide;
  double *m = malloc((size_t)(8 * rows + 2 * t * s) * sizeof *m);
  if (!m) return cudaErrorMemoryAllocation;
  head_t h = {m,
              m + rows,
              m + 2 * rows,
              m + 3 * rows,
              m + 4 * rows,
              m + 8 * rows,
              m + 8 * rows + t * s,
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
  const gpu__attention_io_t *io = &j->io;
  const void *all[] = {io->q,  io->k,    io->v,  io->y,  io->stats,
                       io->dy, io->sums, io->dq, io->dk, io->dv};
  for (int i = 0; i < (j->back ? 10 : 5); i++)
    if (!all[i] || !is_aligned(all[i]))
      return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "attention: a pointer is not aligned");
  if (fake_cuda_work(s, work, j, sizeof *j) == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "attention could not be enqueued");
}

int gpu__sdpa_forward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch, cudaStream_t s)
{
  job_t j = {.how = *p, .io = *io, .scratch = scratch};
  return enqueue(&j, s);
}

int gpu__sdpa_backward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch, cudaStream_t s)
{
  job_t j = {.how = *p, .io = *io, .back = 1, .scratch = scratch};
  return enqueue(&j, s);
}
