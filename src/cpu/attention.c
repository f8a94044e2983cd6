/* Multi-head self-attention: projections, which are GEMMs over all tokens, and between them the op
 * of sdpa.c.  The semantics are those of ref_attention.c.
 *
 * Saved for backward: q, k and v, N x T x 3D, and the outputs of the heads, N x T x D.  The scores
 * need the most memory and are recomputed. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "base/ct_err.h"
#include <math.h>
#include <stdio.h>

typedef struct attention_op {
  ct_op_t head;
  ct_op_t *heads; /* SDPA of the packed projections */
  int64_t n, t, d;
} attention_op_t;

/* Buffers of a run. */
typedef struct buffers {
  float *qkv;       /* q, k and v; saved */
  float *c;         /* outputs of the heads; saved */
  float *dqkv, *dc; /* gradients of qkv and c; backward only */
  float *own;       /* workspaces of all threads */
  float *heads;     /* saved by the heads' op */
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  int64_t tokens = k->n * k->t * k->d;
  float *scratch = a->scratch;
  buffers_t b = {.qkv = ct_op_goes_back(&k->head.desc) ? a->saved : scratch};
  b.c = b.qkv + 3 * tokens;
  b.heads = b.qkv + 4 * tokens; /* inference saves nothing */
  b.dqkv = scratch;             /* inference has qkv and c at this address */
  b.dc = scratch + 3 * tokens;
  b.own = scratch + 4 * tokens;
  return b;
}

/* Runs the forward or backward pass of all heads of all samples. */
static int all_heads(const attention_op_t *k, const buffers_t *b, int pass)
{
  ct_op_args_t a = {.pass = pass, .x = b->qkv, .y = b->c, .saved = b->heads, .scratch = b->own};
  if (pass == CT_BWD_DATA) {
    a.dy = b->dc;
    a.dx = b->dqkv;
  }
  return k->heads->kind->run(k->heads, &a);
}

/* ---- the projections ---- */

static cpu__dense_t into_heads(const attention_op_t *k)
{
  return (cpu__dense_t){k->n * k->t, k->d, 3 * k->d};
}

static cpu__dense_t out_of_heads(const attention_op_t *k)
{
  return (cpu__dense_t){k->n * k->t, k->d, k->d};
}

static int attention_forward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  cpu__dense_forward(dev, into_heads(k), a->x, a->w[0], a->w[1], b->qkv);
  int rc = all_heads(k, b, CT_FWD);
  cpu__dense_forward(dev, out_of_heads(k), b->c, a->w[2], a->w[3], a->y);
  return rc;
}

static int attention_backward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  cpu__dense_t in = into_heads(k), out = out_of_heads(k);
  cpu__dense_data(dev, out, a->dy, a->w[2], b->dc);
  int rc = all_heads(k, b, CT_BWD_DATA);
  if (a->pass & CT_BWD_PARAM) {
    cpu__dense_param(dev, in, a->x, b->dqkv, a->dw[0]);
    cpu__dense_param(dev, out, b->c, a->dy, a->dw[2]);
    cpu__column_sums(dev, in.rows, in.out, b->dqkv, a->dw[1]);
    cpu__column_sums(dev, out.rows, out.out, a->dy, a->dw[3]);
  }
  if (a->pass & CT_BWD_DATA) cpu__dense_data(dev, in, b->dqkv, a->w[0], a->dx);
  return rc;
}

static int attention_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const attention_op_t *k = (const attention_op_t *)op;
  buffers_t b = buffers(k, a);
  if (a->pass & CT_FWD) CT_TRY(attention_forward(k, &b, a));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(attention_backward(k, &b, a));
out:
  return rc;
}

static int attention_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (!d->u.attention.add) return 1;
  snprintf(why, 128, "the CPU backend adds no second input in an attention layer");
  return 0;
}

static int attention_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_op_desc_t heads;
  ct_op_info_t inner;
  (void)like;
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->d = d->x.dim[2];
  ct_shape_t qkv = d->x;
  qkv.dim[2] *= 3;
  ct_op_desc_init(&heads, CT_OP_SDPA, &qkv, &d->y);
  heads.passes = CT_FWD | (ct_op_goes_back(d) ? CT_BWD_DATA : 0);
  heads.u.sdpa.heads = d->u.attention.heads;
  heads.u.sdpa.packed = 1;
  heads.u.sdpa.scale = 1 / sqrt((double)k->d / d->u.attention.heads);
  CT_TRY(cpu__op_new(&cpu__sdpa, op->dev, &heads, NULL, &k->heads, &inner));
  int64_t tokens = k->n * k->t * k->d;
  if (ct_op_goes_back(d)) info->saved = (size_t)(4 * tokens) * sizeof(float) + inner.saved;
  info->scratch = (size_t)(4 * tokens) * sizeof(float) + inner.scratch;
  info->algorithm = inner.algorithm;
out:
  return rc;
}

static void attention_clear(ct_op_t *op)
{
  cpu__op_free(((attention_op_t *)op)->heads);
}

const cpu__op_kind_t cpu__attention = {.size = sizeof(attention_op_t),
                                       .supports = attention_supports,
                                       .prepare = attention_prepare,
                                       .run = attention_run,
                                       .clear = attention_clear};
