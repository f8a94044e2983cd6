/* Multi-head self-attention, semantics as in ref_attention.c: projections of all tokens, and
 * between them attention by cuDNN or by the kernels of attention.h, which store no scores (cuDNN's
 * backward pass may need workspace for their gradients).
 *
 * Saved from forward to backward: q, k and v, N x T x 3D, and the heads' output, N x T x D, in the
 * type of x; and a float32 number per token and head, with which backward recomputes the
 * probabilities. */
#include "cuda/dense.h"
#include "cuda/kernels/attention.h"

typedef struct attention_op {
  ct_op_t head;
  ct_dtype_t type;
  gpu__attention_t shape;
  gpu__dense_t in, out; /* input and output projections */
  gpu__sdpa_t *sdpa;    /* NULL: the kernels of attention.h */
  struct {
    size_t qkv, c, stats; /* in saved memory; for inference in scratch */
    size_t dqkv, dc;      /* backward: gradients of qkv and c */
    size_t sums;          /* backward: of the size of stats */
    size_t work;          /* workspace of GEMMs, sums and cuDNN; last */
  } at;                   /* byte offsets in saved or scratch memory */
} attention_op_t;

/* ---- memory ---- */

/* Assigns offsets in saved and scratch memory. */
static void lay_out(attention_op_t *k, size_t workspace, ct_op_info_t *info)
{
  int back = ct_op_goes_back(&k->head.desc);
  const gpu__attention_t *a = &k->shape;
  int64_t rows = a->n * a->t * a->heads, tokens = rows * a->wide;
  size_t size = ct_dtype_size(k->type), end = 0, *kept = back ? &info->saved : &end;
  k->at.qkv = gpu__take(kept, 3 * tokens, size);
  k->at.c = gpu__take(kept, tokens, size);
  k->at.stats = gpu__take(kept, rows, sizeof(float));
  if (back) {
    k->at.dqkv = gpu__take(&end, 3 * tokens, size);
    k->at.dc = gpu__take(&end, tokens, size);
    k->at.sums = gpu__take(&end, rows, sizeof(float));
  }
  k->at.work = end;
  /* in units of a tensor like x: what several kernels read, and results that one kernel writes and
   * another reads: forward q, k, v and c; backward dc, the gradients of q, k, v, and c and dy
   * again */
  info->extra_bytes[0] = (back ? 4 : 8) * (double)tokens * (double)size;
  info->extra_bytes[1] = 13 * (double)tokens * (double)size + 2 * (double)workspace;
  info->kernels[0] = 3;
  info->kernels[1] = 11;
}

/* Pointers of a run. */
typedef struct buffers {
  void *qkv, *c, *dqkv, *dc, *work;
  float *stats, *sums;
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  char *scratch = a->scratch, *kept = ct_op_goes_back(&k->head.desc) ? a->saved : scratch;
  return (buffers_t){.qkv = kept + k->at.qkv,
                     .c = kept + k->at.c,
                     .stats = (float *)(kept + k->at.stats),
                     .dqkv = scratch + k->at.dqkv,
                     .dc = scratch + k->at.dc,
                     .sums = (float *)(scratch + k->at.sums),
                     .work = scratch + k->at.work};
}

/* ---- passes ---- */

static gpu__attention_io_t tensors_of(const attention_op_t *k, const buffers_t *b)
{
  gpu__attention_io_t io = gpu__attention_packed(k->type, &k->shape, b->qkv, b->dqkv);
  io.y = b->c;
  io.dy = b->dc;
  io.stats = b->stats;
  io.sums = b->sums;
  return io;
}

static int heads_forward(const attention_op_t *k, const buffers_t *b, cudaStream_t s)
{
  gpu__attention_io_t io = tensors_of(k, b);
  if (k->sdpa) return gpu__sdpa_forward(k->sdpa, &io, b->work, s);
  return GPU_CHECK(gpu__attention_forward(k->type, &k->shape, &io, s));
}

static int heads_backward(const attention_op_t *k, const buffers_t *b, cudaStream_t s)
{
  gpu__attention_io_t io = tensors_of(k, b);
  if (k->sdpa) return gpu__sdpa_backward(k->sdpa, &io, b->work, s);
  return GPU_CHECK(gpu__attention_backward(k->type, &k->shape, &io, s));
}

static int attention_forward(const attention_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_t *op = &k->head;
  buffers_t b = buffers(k, a);
  CT_TRY(gpu__dense_forward(&k->in, a->x, gpu__factor(op, a, 0), gpu__factor(op, a, 1), b.qkv,
                            b.work, s));
  CT_TRY(heads_forward(k, &b, s));
  const void *w = gpu__factor(op, a, 2), *bias = gpu__factor(op, a, 3);
  if (k->out.spec.add)
    CT_TRY(gpu__dense_forward_add(&k->out, b.c, w, bias, a->x2, a->y, b.work, s));
  else
    CT_TRY(gpu__dense_forward(&k->out, b.c, w, bias, a->y, b.work, s));
out:
  return rc;
}

static int attention_backward(const attention_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_t *op = &k->head;
  buffers_t b = buffers(k, a);
  CT_TRY(gpu__dense_data(&k->out, a->dy, gpu__factor(op, a, 2), b.dc, b.work, s));
  CT_TRY(heads_backward(k, &b, s));
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(gpu__dense_param(&k->in, a->x, b.dqkv, a->dw[0], a->dw[1], b.work, s));
    CT_TRY(gpu__dense_param(&k->out, b.c, a->dy, a->dw[2], a->dw[3], b.work, s));
  }
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__dense_data(&k->in, b.dqkv, gpu__factor(op, a, 0), a->dx, b.work, s));
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
  spec.add = d->u.attention.add;
  if (ct_op_goes_back(d)) spec.passes |= CT_BWD_DATA;
  CT_TRY(gpu__dense_make(k->head.dev, &spec, &k->out, work));
out:
  return rc;
}

static int attention_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t work = 0, workspace = 0;
  k->type = d->x.dtype;
  k->shape = (gpu__attention_t){.n = d->x.dim[0], .t = d->x.dim[1]};
  k->shape.heads = d->u.attention.heads;
  k->shape.wide = d->x.dim[2] / k->shape.heads;
  CT_TRY(make_projections(k, &work));
  CT_TRY(gpu__sdpa_make(op->dev, k->type, &k->shape, ct_op_goes_back(d), &k->sdpa, &workspace));
  lay_out(k, workspace, info);
  info->scratch = k->at.work + (workspace > work ? workspace : work);
  info->inplace_second = d->u.attention.add;
  info->algorithm = k->sdpa ? "cuDNN" : "tiles";
out:
  return rc;
}

static void attention_clear(ct_op_t *op)
{
  attention_op_t *k = (attention_op_t *)op;
  gpu__dense_clear(&k->in);
  gpu__dense_clear(&k->out);
  gpu__sdpa_free(k->sdpa);
}

const gpu__kind_t gpu__kind_attention = {.size = sizeof(attention_op_t),
                                         .reduced = 1,
                                         .nhwc = -1,
                                         .prepare = attention_prepare,
                                         .run = attention_run,
                                         .clear = attention_clear};
