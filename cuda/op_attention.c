/* Multi-head self-attention, semantics as in ref_attention.c: projections of all tokens, and GEMMs
 * batched over all heads of all samples, for which the heads' rows are separated (heads.h).
 *
 * Saved from forward to backward, in the type of x: q, k and v with heads separated, and the heads'
 * output, N x T x D. The scores, which need the most memory, are recomputed. With reduced
 * precision, scores and gradients of probabilities are still float32; only GEMM operands are
 * rounded. */
#include "cuda/dense.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/softmax.h"
#include <math.h>

typedef struct attention_op {
  ct_op_t head;
  ct_dtype_t type;
  float scale;
  gpu__heads_t qkv;     /* shape of q, k and v together */
  gpu__heads_t single;  /* shape of one tensor such as c */
  gpu__dense_t in, out; /* input and output projections */
  /* GEMMs per head, where rows are [T,D'] and scores [T,T]: */
  gpu__gemm_t *pairs;      /* rows * rows^T, to float32 scores */
  gpu__gemm_t *mix;        /* scores * rows */
  gpu__gemm_t *mix_turned; /* scores^T * rows */
  struct {
    size_t qkv, c; /* in saved memory; for inference in scratch */
    size_t rows;   /* q, k and v as merged rows */
    size_t one;    /* a tensor such as c, with heads separated */
    size_t scores, p, ds;
    size_t dqkv; /* backward: gradient of qkv, with heads separated */
    size_t dc;   /* backward: gradient of c, as merged rows */
    size_t work; /* workspace of GEMMs and sums; last */
  } at;          /* byte offsets in saved or scratch memory */
} attention_op_t;

/* ---- memory ---- */

/* Return the number of elements of a tensor such as c, and of the scores. */
static int64_t tokens(const attention_op_t *k)
{
  return k->single.n * k->single.t * k->single.heads * k->single.wide;
}

static int64_t scores(const attention_op_t *k)
{
  return k->single.n * k->single.t * k->single.heads * k->single.t;
}

/* Assigns offsets in saved and scratch memory. */
static void lay_out(attention_op_t *k, ct_op_info_t *info)
{
  int back = ct_op_goes_back(&k->head.desc);
  size_t size = ct_dtype_size(k->type), end = 0, *kept = back ? &info->saved : &end;
  k->at.qkv = gpu__take(kept, 3 * tokens(k), size);
  k->at.c = gpu__take(kept, tokens(k), size);
  k->at.rows = gpu__take(&end, 3 * tokens(k), size);
  k->at.one = gpu__take(&end, tokens(k), size);
  k->at.scores = k->at.p = gpu__take(&end, scores(k), sizeof(float));
  if (k->type != CT_F32) k->at.p = gpu__take(&end, scores(k), size);
  if (back) {
    k->at.ds = gpu__take(&end, scores(k), size);
    k->at.dqkv = gpu__take(&end, 3 * tokens(k), size);
    k->at.dc = gpu__take(&end, tokens(k), size);
  }
  k->at.work = end;
}

/* Pointers of a run. */
typedef struct buffers {
  char *q, *k, *v, *c, *rows, *one, *dq, *dk, *dv, *dc;
  float *scores, *dp;
  void *p, *ds, *work;
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  size_t part = (size_t)tokens(k) * ct_dtype_size(k->type);
  char *scratch = a->scratch, *kept = ct_op_goes_back(&k->head.desc) ? a->saved : scratch;
  buffers_t b = {.q = kept + k->at.qkv,
                 .c = kept + k->at.c,
                 .rows = scratch + k->at.rows,
                 .one = scratch + k->at.one,
                 .dq = scratch + k->at.dqkv,
                 .dc = scratch + k->at.dc,
                 .scores = (float *)(scratch + k->at.scores),
                 .p = scratch + k->at.p,
                 .ds = scratch + k->at.ds,
                 .work = scratch + k->at.work};
  b.k = b.q + part;
  b.v = b.k + part;
  b.dk = b.dq + part;
  b.dv = b.dk + part;
  /* in float32 the probabilities share memory with the scores, and ds with dp */
  b.dp = k->type == CT_F32 ? b.ds : b.scores;
  return b;
}

/* ---- passes ---- */

/* Computes p = softmax(q * k^T / sqrt(D')) for all heads. */
static int find_probabilities(const attention_op_t *k, const buffers_t *b, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__heads_t *h = &k->single;
  CT_TRY(gpu__gemm_run(k->pairs, k->scale, b->q, b->k, NULL, b->scores, b->work, s));
  GPU_TRY(gpu__softmax(k->type, h->n * h->heads * h->t, h->t, b->scores, b->p, s));
out:
  return rc;
}

static int attention_forward(const attention_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  size_t size = ct_dtype_size(k->type);
  const ct_op_t *op = &k->head;
  buffers_t b = buffers(k, a);
  CT_TRY(gpu__dense_forward(&k->in, a->x, gpu__factor(op, a, 0), gpu__factor(op, a, 1), b.rows,
                            b.work, s));
  GPU_TRY(gpu__heads_apart(&k->qkv, size, b.rows, b.q, s));
  CT_TRY(find_probabilities(k, &b, s));
  CT_TRY(gpu__gemm_run(k->mix, 1, b.p, b.v, NULL, b.one, b.work, s));
  GPU_TRY(gpu__heads_together(&k->single, size, b.one, b.c, s));
  CT_TRY(gpu__dense_forward(&k->out, b.c, gpu__factor(op, a, 2), gpu__factor(op, a, 3), a->y,
                            b.work, s));
out:
  return rc;
}

/* Computes the gradients of q, k and v from dc, the heads' gradient, separated in b->one. */
static int heads_backward(const attention_op_t *k, const buffers_t *b, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__heads_t *h = &k->single;
  CT_TRY(find_probabilities(k, b, s));
  CT_TRY(gpu__gemm_run(k->mix_turned, 1, b->p, b->one, NULL, b->dv, b->work, s));
  CT_TRY(gpu__gemm_run(k->pairs, 1, b->one, b->v, NULL, b->dp, b->work, s));
  GPU_TRY(gpu__softmax_backward(k->type, h->n * h->heads * h->t, h->t, b->p, b->dp, b->ds, s));
  CT_TRY(gpu__gemm_run(k->mix, k->scale, b->ds, b->k, NULL, b->dq, b->work, s));
  CT_TRY(gpu__gemm_run(k->mix_turned, k->scale, b->ds, b->q, NULL, b->dk, b->work, s));
out:
  return rc;
}

static int attention_backward(const attention_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  size_t size = ct_dtype_size(k->type);
  const ct_op_t *op = &k->head;
  buffers_t b = buffers(k, a);
  CT_TRY(gpu__dense_data(&k->out, a->dy, gpu__factor(op, a, 2), b.dc, b.work, s));
  GPU_TRY(gpu__heads_apart(&k->single, size, b.dc, b.one, s));
  CT_TRY(heads_backward(k, &b, s));
  GPU_TRY(gpu__heads_together(&k->qkv, size, b.dq, b.rows, s));
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(gpu__dense_param(&k->in, a->x, b.rows, a->dw[0], a->dw[1], b.work, s));
    CT_TRY(gpu__dense_param(&k->out, b.c, a->dy, a->dw[2], a->dw[3], b.work, s));
  }
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__dense_data(&k->in, b.rows, gpu__factor(op, a, 0), a->dx, b.work, s));
out:
  return rc;
}

/* ---- op table ---- */

static int attention_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                         cudaStream_t s)
{
  int rc = CT_OK;
  const attention_op_t *k = (const attention_op_t *)op;
  (void)at;
  if (a->pass & CT_FWD) CT_TRY(attention_forward(k, a, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(attention_backward(k, a, s));
out:
  return rc;
}

static int make_projections(attention_op_t *k, size_t *work)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &k->head.desc;
  int64_t wide = d->x.dim[2];
  gpu__dense_spec_t spec = {.passes = d->passes,
                            .rows = d->x.dim[0] * d->x.dim[1],
                            .in = wide,
                            .out = 3 * wide,
                            .type = k->type,
                            .y_type = k->type,
                            .bias = 1};
  CT_TRY(gpu__dense_make(k->head.dev, &spec, &k->in, work));
  spec.out = wide;
  if (ct_op_goes_back(d)) spec.passes |= CT_BWD_DATA;
  CT_TRY(gpu__dense_make(k->head.dev, &spec, &k->out, work));
out:
  return rc;
}

static int make_gemms(attention_op_t *k, size_t *work)
{
  int rc = CT_OK;
  ct_dev_t *dev = k->head.dev;
  int64_t t = k->single.t, wide = k->single.wide, rows = t * wide, pairs = t * t;
  gpu__gemm_spec_t by_rows = {.m = t, .n = t, .k = wide, .lda = wide, .ldb = wide, .ldc = t};
  gpu__gemm_spec_t by_pairs = {.m = t, .n = wide, .k = t, .lda = t, .ldb = wide, .ldc = wide};
  by_rows.batch = by_pairs.batch = k->single.n * k->single.heads;
  by_rows.step_a = by_rows.step_b = by_pairs.step_b = by_pairs.step_c = rows;
  by_rows.step_c = by_pairs.step_a = pairs;
  by_rows.in = by_pairs.in = by_pairs.out = k->type;
  by_rows.out = CT_F32;
  by_rows.b_turned = 1;
  /* k and v start where q and k end */
  if ((size_t)tokens(k) * ct_dtype_size(k->type) % 16 != 0) {
    by_rows.unaligned = GPU_GEMM_A | GPU_GEMM_B;
    by_pairs.unaligned = GPU_GEMM_B | GPU_GEMM_C;
  }
  CT_TRY(gpu__gemm_add(dev, &by_rows, &k->pairs, work));
  CT_TRY(gpu__gemm_add(dev, &by_pairs, &k->mix, work));
  by_pairs.a_turned = 1;
  if (ct_op_goes_back(&k->head.desc)) CT_TRY(gpu__gemm_add(dev, &by_pairs, &k->mix_turned, work));
out:
  return rc;
}

static int attention_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t wide = d->x.dim[2];
  size_t work = 0;
  k->type = d->x.dtype;
  k->single = (gpu__heads_t){.n = d->x.dim[0], .t = d->x.dim[1], .parts = 1};
  k->single.heads = d->u.attention.heads;
  k->single.wide = wide / k->single.heads;
  k->qkv = k->single;
  k->qkv.parts = 3;
  k->scale = 1 / sqrtf((float)k->single.wide);
  CT_TRY(make_projections(k, &work));
  CT_TRY(make_gemms(k, &work));
  lay_out(k, info);
  info->scratch = k->at.work + work;
  info->algorithm = "products";
out:
  return rc;
}

static void attention_clear(ct_op_t *op)
{
  attention_op_t *k = (attention_op_t *)op;
  gpu__dense_clear(&k->in);
  gpu__dense_clear(&k->out);
  gpu__gemm_free(k->pairs);
  gpu__gemm_free(k->mix);
  gpu__gemm_free(k->mix_turned);
}

const gpu__kind_t gpu__kind_attention = {.size = sizeof(attention_op_t),
                                         .reduced = 1,
                                         .nhwc = -1,
                                         .prepare = attention_prepare,
                                         .run = attention_run,
                                         .clear = attention_clear};
