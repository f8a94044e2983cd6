/* Multi-head self-attention: projections, which are GEMMs over all tokens, and between them the op
 * of sdpa.c.  The semantics are those of ref_attention.c.
 *
 * Saved for backward: q, k and v, N x T x 3D, and the outputs of the heads, N x T x D.  The scores
 * need the most memory and are recomputed. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "cpu/gemm/gemm_amx.h"
#include "cpu/tile/amx.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include <math.h>
#include <stdio.h>

typedef struct attention_op {
  ct_op_t head;
  ct_op_t *heads; /* SDPA of the packed projections */
  int64_t n, t, d;
  int low;                   /* 1: x, y and all buffers are bf16, multiplied on AMX */
  size_t qkv_bytes, c_bytes; /* of the buffers */
  size_t gemm_at;            /* offset in scratch of the workspace of a GEMM */
} attention_op_t;

/* Buffers of a run. */
typedef struct buffers {
  void *qkv;       /* q, k and v; saved */
  void *c;         /* outputs of the heads; saved */
  void *dqkv, *dc; /* gradients of qkv and c; backward only */
  void *own;       /* workspaces of all threads */
  void *heads;     /* saved by the heads' op */
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  size_t qkv = k->qkv_bytes, c = k->c_bytes;
  char *scratch = a->scratch, *saved = ct_op_goes_back(&k->head.desc) ? a->saved : scratch;
  return (buffers_t){.qkv = saved,
                     .c = saved + qkv,
                     .heads = saved + qkv + c, /* inference saves nothing */
                     .dqkv = scratch,          /* inference has qkv and c at this address */
                     .dc = scratch + qkv,
                     .own = scratch + qkv + c};
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

static void amx_product(const attention_op_t *k, cpu__amx_gemm_t g, const void *a, const void *b,
                        void *c, const ct_op_args_t *args)
{
  g.a.at = a;
  g.b.at = b;
  g.c = c;
  cpu__amx_gemm(k->head.dev, &g, (char *)args->scratch + k->gemm_at);
}

static void project(const attention_op_t *k, cpu__dense_t d, const void *x, void *const w[2],
                    void *y, const ct_op_args_t *args)
{
  cpu__amx_gemm_t g = cpu__amx_dense(CT_FWD, d.rows, d.in, d.out);
  g.bias = w[1];
  if (k->low)
    amx_product(k, g, x, w[0], y, args);
  else
    cpu__dense_forward(k->head.dev, d, x, w[0], w[1], y);
}

static void project_back(const attention_op_t *k, cpu__dense_t d, const void *dy, const void *w,
                         void *dx, const ct_op_args_t *args)
{
  if (k->low)
    amx_product(k, cpu__amx_dense(CT_BWD_DATA, d.rows, d.in, d.out), dy, w, dx, args);
  else
    cpu__dense_data(k->head.dev, d, dy, w, dx);
}

static void project_param(const attention_op_t *k, cpu__dense_t d, const void *x, const void *dy,
                          void *const dw[2], const ct_op_args_t *args)
{
  if (k->low) {
    cpu__amx_gemm_t g = cpu__amx_dense(CT_BWD_PARAM, d.rows, d.in, d.out);
    g.sums = dw[1];
    amx_product(k, g, dy, x, dw[0], args);
  } else {
    cpu__dense_param(k->head.dev, d, x, dy, dw[0]);
    cpu__column_sums(k->head.dev, d.rows, d.out, dy, dw[1]);
  }
}

static int attention_forward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  project(k, into_heads(k), a->x, a->w, b->qkv, a);
  int rc = all_heads(k, b, CT_FWD);
  project(k, out_of_heads(k), b->c, a->w + 2, a->y, a);
  return rc;
}

static int attention_backward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  cpu__dense_t in = into_heads(k), out = out_of_heads(k);
  project_back(k, out, a->dy, a->w[2], b->dc, a);
  int rc = all_heads(k, b, CT_BWD_DATA);
  if (a->pass & CT_BWD_PARAM) {
    project_param(k, in, a->x, b->dqkv, a->dw, a);
    project_param(k, out, b->c, a->dy, a->dw + 2, a);
  }
  if (a->pass & CT_BWD_DATA) project_back(k, in, b->dqkv, a->w[0], a->dx, a);
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
  const char *no = d->u.attention.add ? "the CPU backend adds no second input in an attention layer"
                   : d->x.dtype == CT_BF16 && !cpu__amx_is_there()
                       ? "the CPU backend computes attention layers in bf16 on AMX only"
                       : NULL;
  if (no) snprintf(why, 128, "%s", no);
  return !no;
}

/* Prepares the op of the heads. */
static int prepare_heads(attention_op_t *k, ct_op_info_t *inner)
{
  const ct_op_desc_t *d = &k->head.desc;
  ct_op_desc_t heads;
  ct_shape_t qkv = d->x;
  qkv.dim[2] *= 3;
  ct_op_desc_init(&heads, CT_OP_SDPA, &qkv, &d->y);
  heads.passes = CT_FWD | (ct_op_goes_back(d) ? CT_BWD_DATA : 0);
  heads.u.sdpa.heads = d->u.attention.heads;
  heads.u.sdpa.packed = 1;
  heads.u.sdpa.scale = 1 / sqrt((double)k->d / d->u.attention.heads);
  return cpu__op_new(k->low ? &cpu__sdpa_amx : &cpu__sdpa, k->head.dev, &heads, NULL, &k->heads,
                     inner);
}

/* Returns the workspace of the largest GEMM. */
static size_t gemm_bytes(const attention_op_t *k)
{
  size_t most = 0;
  for (int pass = CT_FWD; k->low && pass <= CT_BWD_PARAM; pass *= 2) {
    cpu__dense_t in = into_heads(k);
    cpu__amx_gemm_t g = cpu__amx_dense(pass, in.rows, in.in, in.out);
    size_t bytes = cpu__amx_gemm_scratch(&g, k->head.dev->threads);
    if (bytes > most) most = bytes;
  }
  return most;
}

static int attention_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_op_info_t inner;
  (void)like;
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->d = d->x.dim[2];
  k->low = d->x.dtype == CT_BF16;
  CT_TRY(prepare_heads(k, &inner));
  k->c_bytes = (size_t)ct_round_up((int64_t)ct_shape_bytes(&d->x), 64);
  k->qkv_bytes = (size_t)ct_round_up(3 * (int64_t)ct_shape_bytes(&d->x), 64);
  size_t buffers = k->qkv_bytes + k->c_bytes;
  if (ct_op_goes_back(d)) info->saved = buffers + inner.saved;
  k->gemm_at = buffers + (size_t)ct_round_up((int64_t)inner.scratch, 64);
  info->scratch = k->gemm_at + gemm_bytes(k);
  info->algorithm = inner.algorithm;
out:
  return rc;
}

static void attention_clear(ct_op_t *op)
{
  cpu__op_free(((attention_op_t *)op)->heads);
}

const cpu__op_kind_t cpu__attention = {.size = sizeof(attention_op_t),
                                       .bf16 = 1,
                                       .supports = attention_supports,
                                       .prepare = attention_prepare,
                                       .run = attention_run,
                                       .clear = attention_clear};
