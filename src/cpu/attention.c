/* Multi-head self-attention.  The projections are GEMMs over all tokens.  The scores, softmax and
 * weighted sum of each (sample, head) run on one thread, within its caches.  The semantics are
 * those of ref_attention.c.
 *
 * Saved for backward: q, k and v, N x T x 3D, and the outputs of the heads, N x T x D.  The scores
 * need the most memory and are recomputed. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Size in floats of a block of scores; the block and its gradients take a quarter of a megabyte. */
enum { BLOCK = 32768 };

typedef struct attention_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  int64_t n, t, d, heads, wide; /* wide: D / heads */
  int64_t across;               /* T rounded up to whole vectors */
  float scale;
} attention_op_t;

/* Buffers of a run. */
typedef struct buffers {
  float *qkv;       /* q, k and v; saved */
  float *c;         /* outputs of the heads; saved */
  float *dqkv, *dc; /* gradients of qkv and c; backward only */
  float *own;       /* workspaces of all threads */
} buffers_t;

static buffers_t buffers(const attention_op_t *k, const ct_op_args_t *a)
{
  int64_t tokens = k->n * k->t * k->d;
  float *scratch = a->scratch;
  buffers_t b = {.qkv = ct_op_goes_back(&k->head.desc) ? a->saved : scratch};
  b.c = b.qkv + 3 * tokens;
  b.dqkv = scratch; /* inference has qkv and c at this address */
  b.dc = scratch + 3 * tokens;
  b.own = scratch + 4 * tokens;
  return b;
}

/* Returns the number of blocks of score rows in which a (sample, head) is processed, so that a
 * block fits the caches. */
static int64_t blocks(const attention_op_t *k)
{
  return (k->t * k->across + BLOCK - 1) / BLOCK;
}

static int64_t block_rows(const attention_op_t *k)
{
  return (k->t + blocks(k) - 1) / blocks(k);
}

/* Returns the size of a thread's workspace: k^T and the scores of a block; in backward also v^T and
 * the gradients of the scores. */
static int64_t own_size(const attention_op_t *k, int back)
{
  return (back ? 2 : 1) * (k->wide + block_rows(k)) * k->across;
}

/* One head of one sample: offsets of its columns, and the workspace of its thread. */
typedef struct part {
  const float *q, *k, *v;  /* row stride 3D */
  int64_t first;           /* offset of q in qkv */
  int64_t out;             /* offset in c */
  float *kt, *vt;          /* k^T and v^T, packed */
  float *scores, *dscores; /* row stride `across` */
} part_t;

static part_t part(const attention_op_t *k, const buffers_t *b, int64_t task, float *own)
{
  int64_t row = task / k->heads * k->t, column = task % k->heads * k->wide;
  part_t p = {.first = row * 3 * k->d + column, .out = row * k->d + column, .kt = own};
  p.q = b->qkv + p.first;
  p.k = p.q + k->d;
  p.v = p.k + k->d;
  p.scores = p.kt + k->wide * k->across;
  p.vt = p.scores + block_rows(k) * k->across;
  p.dscores = p.vt + k->wide * k->across;
  return p;
}

/* Computes c = a * b^T for some rows; bt is b^T, packed, so that whole vectors are stored. */
static void times_transposed(const attention_op_t *k, int64_t rows, const float *a, int64_t a_row,
                             const float *bt, float *c)
{
  cpu__gemm_tiled_t p = {.a_row = a_row,
                         .a_k = 1,
                         .b_k = k->tiles->width,
                         .b_vec = k->wide * k->tiles->width,
                         .c_row = k->across};
  cpu__gemm_tiled(k->tiles, p, rows, k->across, k->wide, a, bt, c);
}

/* Computes c = scores * b for some rows. */
static void times(const attention_op_t *k, int64_t rows, const float *scores, const float *b,
                  int64_t b_row, float *c, int64_t c_row)
{
  cpu__gemm_tiled_t p = {
      .a_row = k->across, .a_k = 1, .b_k = b_row, .b_vec = k->tiles->width, .c_row = c_row};
  cpu__gemm_tiled(k->tiles, p, rows, k->wide, k->t, scores, b, c);
}

/* Computes c = scores^T * b (+ c if `add`), summed over some rows. */
static void transposed_times(const attention_op_t *k, int64_t rows, const float *scores,
                             const float *b, int64_t b_row, int add, float *c)
{
  cpu__gemm_tiled_t p = {.a_row = 1,
                         .a_k = k->across,
                         .b_k = b_row,
                         .b_vec = k->tiles->width,
                         .c_row = 3 * k->d,
                         .add = add};
  cpu__gemm_tiled(k->tiles, p, k->t, k->wide, rows, scores, b, c);
}

/* Computes softmax(q * k^T / sqrt(wide)) for some rows. */
static void find_scores(const attention_op_t *k, const part_t *p, int64_t first, int64_t rows)
{
  times_transposed(k, rows, p->q + first * 3 * k->d, 3 * k->d, p->kt, p->scores);
  for (int64_t i = 0; i < rows; i++)
    k->loops->softmax(k->t, k->scale, p->scores + i * k->across);
}

static void attend(const attention_op_t *k, const buffers_t *b, const part_t *p)
{
  int64_t n = blocks(k);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->wide, k->t, p->k, 3 * k->d, p->kt);
  for (int64_t i = 0; i < n; i++) {
    int64_t first = k->t * i / n, rows = k->t * (i + 1) / n - first;
    find_scores(k, p, first, rows);
    times(k, rows, p->scores, p->v, 3 * k->d, b->c + p->out + first * k->d, k->d);
  }
}

/* Computes dq for the rows of one block, and adds the block's contribution to dk and dv. */
static void block_backward(const attention_op_t *k, const buffers_t *b, const part_t *p,
                           int64_t first, int64_t rows)
{
  int64_t ld = 3 * k->d, at = p->out + first * k->d;
  const float *c = b->c + at, *dc = b->dc + at;
  float *dq = b->dqkv + p->first, *dk = dq + k->d, *dv = dk + k->d;
  find_scores(k, p, first, rows);
  transposed_times(k, rows, p->scores, dc, k->d, first > 0, dv);
  times_transposed(k, rows, dc, k->d, p->vt, p->dscores);
  for (int64_t i = 0; i < rows; i++)
    k->loops->softmax_bwd(k->t, k->scale, p->scores + i * k->across,
                          k->loops->dot(k->wide, c + i * k->d, dc + i * k->d),
                          p->dscores + i * k->across);
  times(k, rows, p->dscores, p->k, ld, dq + first * ld, ld);
  transposed_times(k, rows, p->dscores, p->q + first * ld, ld, first > 0, dk);
}

static void attend_backward(const attention_op_t *k, const buffers_t *b, const part_t *p)
{
  int64_t n = blocks(k);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->wide, k->t, p->k, 3 * k->d, p->kt);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->wide, k->t, p->v, 3 * k->d, p->vt);
  for (int64_t i = 0; i < n; i++)
    block_backward(k, b, p, k->t * i / n, k->t * (i + 1) / n - k->t * i / n);
}

/* Runs the forward or backward pass of all heads of all samples. */
static void all_heads(const attention_op_t *k, const buffers_t *b, int back)
{
  int64_t tasks = k->n * k->heads;

#pragma omp parallel for if (tasks > 1 && tasks * k->t * k->t > 1024) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    part_t p = part(k, b, i, b->own + omp_get_thread_num() * own_size(k, back));
    if (back)
      attend_backward(k, b, &p);
    else
      attend(k, b, &p);
  }
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

static void attention_forward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  cpu__dense_forward(dev, into_heads(k), a->x, a->w[0], a->w[1], b->qkv);
  all_heads(k, b, 0);
  cpu__dense_forward(dev, out_of_heads(k), b->c, a->w[2], a->w[3], a->y);
}

static void attention_backward(const attention_op_t *k, const buffers_t *b, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  cpu__dense_t in = into_heads(k), out = out_of_heads(k);
  cpu__dense_data(dev, out, a->dy, a->w[2], b->dc);
  all_heads(k, b, 1);
  if (a->pass & CT_BWD_PARAM) {
    cpu__dense_param(dev, in, a->x, b->dqkv, a->dw[0]);
    cpu__dense_param(dev, out, b->c, a->dy, a->dw[2]);
    cpu__column_sums(dev, in.rows, in.out, b->dqkv, a->dw[1]);
    cpu__column_sums(dev, out.rows, out.out, a->dy, a->dw[3]);
  }
  if (a->pass & CT_BWD_DATA) cpu__dense_data(dev, in, b->dqkv, a->w[0], a->dx);
}

static int attention_run(ct_op_t *op, const ct_op_args_t *a)
{
  const attention_op_t *k = (const attention_op_t *)op;
  buffers_t b = buffers(k, a);
  if (a->pass & CT_FWD) attention_forward(k, &b, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) attention_backward(k, &b, a);
  return CT_OK;
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
  attention_op_t *k = (attention_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->tiles = cpu__tiles(op->dev);
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->d = d->x.dim[2];
  k->heads = d->u.attention.heads;
  k->wide = k->d / k->heads;
  k->scale = 1 / sqrtf((float)k->wide);
  k->across = (k->t + k->tiles->width - 1) / k->tiles->width * k->tiles->width;
  int64_t tokens = k->n * k->t * k->d, back = ct_op_goes_back(d);
  /* micro-kernels may read v up to the end of a vector */
  if (back) info->saved = (size_t)(4 * tokens + k->tiles->width) * sizeof(float);
  info->scratch = (size_t)(4 * tokens + op->dev->threads * own_size(k, (int)back)) * sizeof(float);
  info->algorithm = "products, softmax by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__attention = {.size = sizeof(attention_op_t),
                                       .supports = attention_supports,
                                       .prepare = attention_prepare,
                                       .run = attention_run};
