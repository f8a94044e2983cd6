/* Multi-head self-attention: products for the projections of all places, and for each (sample,
 * head) the scores, their softmax and their use, by one thread.  The semantics are those of
 * ref_attention.c.
 *
 * Kept from forward to backward: q, k and v N x T x 3D, and what the heads give, N x T x D.  The
 * scores, which are the most memory, are computed again. */
#include "cpu/kinds.h"
#include "cpu/product/gemm.h"
#include "cpu/kern/loops.h"
#include "base/ct_err.h"
#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct attention_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  int64_t n, t, d, heads, wide; /* wide: D / heads */
  float scale;
} attention_op_t;

/* Memory of a run. */
typedef struct buffers {
  float *qkv, *c;   /* kept */
  float *dqkv, *dc; /* backward */
  float *scores;    /* for each thread T x T; backward: twice */
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  int64_t tokens = k->n * k->t * k->d;
  float *scratch = a->scratch;
  buffers_t b = {.qkv = ct_op_goes_back(&k->head.desc) ? a->saved : scratch};
  b.c = b.qkv + 3 * tokens;
  b.dqkv = scratch; /* the forward pass of inference has qkv and c there */
  b.dc = scratch + 3 * tokens;
  b.scores = scratch + 4 * tokens;
  return b;
}

/* One head of one sample: where its columns begin. */
typedef struct part {
  const float *q, *k, *v; /* rows 3D apart */
  int64_t first;          /* element of q within qkv */
  int64_t out;            /* element within c */
} part_t;

static part_t part(const attention_op_t *k, const float *qkv, int64_t task)
{
  int64_t row = task / k->heads * k->t, column = task % k->heads * k->wide;
  part_t p = {.first = row * 3 * k->d + column, .out = row * k->d + column};
  p.q = qkv + p.first;
  p.k = p.q + k->d;
  p.v = p.k + k->d;
  return p;
}

/* softmax(q k^T / sqrt(wide)) */
static int find_scores(const attention_op_t *k, const part_t *p, float *scores)
{
  int64_t t = k->t, ld = 3 * k->d;
  int rc = cpu__gemm('N', 'T', t, t, k->wide, k->scale, p->q, ld, p->k, ld, 0, scores, t);
  for (int64_t i = 0; i < t && rc == CT_OK; i++) {
    float *row = scores + i * t, largest, sum;
    k->loops->exp_sum(t, row, &largest, &sum);
    k->loops->exp_scaled(t, row, largest, 1 / sum, row);
  }
  return rc;
}

static int attend(const attention_op_t *k, const buffers_t *b, int64_t task, float *scores)
{
  int rc = CT_OK;
  part_t p = part(k, b->qkv, task);
  CT_TRY(find_scores(k, &p, scores));
  CT_TRY(cpu__gemm('N', 'N', k->t, k->wide, k->t, 1, scores, k->t, p.v, 3 * k->d, 0, b->c + p.out,
                   k->d));
out:
  return rc;
}

static int attend_backward(const attention_op_t *k, const buffers_t *b, int64_t task, float *scores)
{
  int rc = CT_OK;
  part_t p = part(k, b->qkv, task);
  int64_t t = k->t, wide = k->wide, ld = 3 * k->d;
  const float *dc = b->dc + p.out;
  float *dq = b->dqkv + p.first, *dk = dq + k->d, *dv = dk + k->d, *dp = scores + t * t;
  CT_TRY(find_scores(k, &p, scores));
  CT_TRY(cpu__gemm('T', 'N', t, wide, t, 1, scores, t, dc, k->d, 0, dv, ld));
  CT_TRY(cpu__gemm('N', 'T', t, t, wide, 1, dc, k->d, p.v, ld, 0, dp, t));
  for (int64_t i = 0; i < t; i++)
    k->loops->softmax_bwd(t, scores + i * t, k->scale, dp + i * t);
  CT_TRY(cpu__gemm('N', 'N', t, wide, t, 1, dp, t, p.k, ld, 0, dq, ld));
  CT_TRY(cpu__gemm('T', 'N', t, wide, t, 1, dp, t, p.q, ld, 0, dk, ld));
out:
  return rc;
}

/* All heads of all samples; each thread has its own scores. */
static int all_heads(const attention_op_t *k, const buffers_t *b, int back)
{
  int rc = CT_OK;
  int64_t tasks = k->n * k->heads, each = (back ? 2 : 1) * k->t * k->t;

#pragma omp parallel for if (tasks > 1 && tasks * k->t * k->t > 1024) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    float *scores = b->scores + omp_get_thread_num() * each;
    int result = back ? attend_backward(k, b, i, scores) : attend(k, b, i, scores);
    if (result != CT_OK) {
#pragma omp atomic write
      rc = result;
    }
  }
  return rc;
}

/* y = x w^T + bias */
static int project(cpu__dense_t d, const float *x, const float *w, const float *bias, float *y)
{
  for (int64_t r = 0; r < d.rows; r++)
    memcpy(y + r * d.out, bias, (size_t)d.out * sizeof *y);
  return cpu__dense_forward(d, x, w, 1, y);
}

static int attention_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const attention_op_t *k = (const attention_op_t *)op;
  buffers_t b = buffers(k, a);
  cpu__dense_t in = {k->n * k->t, k->d, 3 * k->d}, out = {in.rows, k->d, k->d};
  if (a->pass & CT_FWD) {
    CT_TRY(project(in, a->x, a->w[0], a->w[1], b.qkv));
    CT_TRY(all_heads(k, &b, 0));
    CT_TRY(project(out, b.c, a->w[2], a->w[3], a->y));
  }
  if (!(a->pass & (CT_BWD_DATA | CT_BWD_PARAM))) goto out;
  CT_TRY(cpu__dense_data(out, a->dy, a->w[2], b.dc));
  CT_TRY(all_heads(k, &b, 1));
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(cpu__dense_param(in, a->x, b.dqkv, a->dw[0]));
    CT_TRY(cpu__dense_param(out, b.c, a->dy, a->dw[2]));
    cpu__column_sums(in.rows, in.out, b.dqkv, a->dw[1]);
    cpu__column_sums(out.rows, out.out, a->dy, a->dw[3]);
  }
  if (a->pass & CT_BWD_DATA) CT_TRY(cpu__dense_data(in, b.dqkv, a->w[0], a->dx));
out:
  return rc;
}

static int attention_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->d = d->x.dim[2];
  k->heads = d->u.attention.heads;
  k->wide = k->d / k->heads;
  k->scale = 1 / sqrtf((float)k->wide);
  int64_t tokens = k->n * k->t * k->d, scores = op->dev->threads * k->t * k->t;
  if (ct_op_goes_back(d)) {
    info->saved = (size_t)(4 * tokens) * sizeof(float);
    scores *= 2;
  }
  info->scratch = (size_t)(4 * tokens + scores) * sizeof(float);
  info->algorithm = "products, softmax by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__attention = {
    .size = sizeof(attention_op_t), .prepare = attention_prepare, .run = attention_run};
