/* Attention with given queries, keys and values.  As in attention.c, each head runs on one thread,
 * block by block of queries, so that its scores stay in the caches; backward computes them again.
 * With `causal`, a block meets only the keys up to its last query. */
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Size in floats of a block of scores. */
enum { BLOCK = 32768 };

typedef struct sdpa_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  int64_t heads, t, s, d, e; /* queries, keys, their features, features of values */
  int64_t across;            /* S rounded up to whole vectors */
  int64_t rows;              /* queries of a block */
  float scale;
  int causal;
} sdpa_op_t;

/* One head: its matrices, and the workspace of its thread. */
typedef struct part {
  const float *q, *k, *v, *y, *dy;
  float *out, *dq, *dk, *dv;
  float *kt, *vt;           /* k^T and v^T, packed */
  float *vs, *ks, *qs, *gs; /* packed v, k; and copies that may be read beyond their ends */
  float *scores, *dscores;  /* row stride `across` */
} part_t;

/* A thread's workspace: the forward pass needs the packed k^T and v and a block of scores; the
 * backward pass also the packed k, v^T, and the gradients of a block. */
static int64_t own_size(const sdpa_op_t *k, int back)
{
  int64_t width = k->tiles->width;
  int64_t values = cpu__gemm_tiled_packed(k->tiles, k->s, k->e);
  int64_t keys = cpu__gemm_tiled_packed(k->tiles, k->s, k->d);
  int64_t n = k->d * k->across + values + k->rows * k->across;
  int64_t blocks = k->rows * (k->d + k->e + 2 * width);
  return n + (back ? k->e * k->across + keys + k->rows * k->across + blocks : 0) + width;
}

static part_t part(const sdpa_op_t *k, const ct_op_args_t *a, int64_t i, float *own)
{
  int64_t q = i * k->t * k->d, key = i * k->s * k->d, v = i * k->s * k->e, y = i * k->t * k->e;
  part_t p = {.q = (const float *)a->x + q,
              .k = (const float *)a->x2 + key,
              .v = (const float *)a->x3 + v,
              .kt = own};
  p.vs = p.kt + k->d * k->across;
  p.scores = p.vs + cpu__gemm_tiled_packed(k->tiles, k->s, k->e);
  p.vt = p.scores + k->rows * k->across;
  p.ks = p.vt + k->e * k->across;
  p.dscores = p.ks + cpu__gemm_tiled_packed(k->tiles, k->s, k->d);
  p.qs = p.dscores + k->rows * k->across;
  p.gs = p.qs + k->rows * (k->d + k->tiles->width);
  p.out = a->y ? (float *)a->y + y : NULL;
  p.y = p.out;
  if (!(a->pass & CT_BWD_DATA)) return p;
  p.dy = (const float *)a->dy + y;
  p.dq = a->dx ? (float *)a->dx + q : NULL;
  p.dk = a->dx2 ? (float *)a->dx2 + key : NULL;
  p.dv = a->dx3 ? (float *)a->dx3 + v : NULL;
  return p;
}

/* Returns how many keys the queries up to `last` (excluded) meet. */
static int64_t seen(const sdpa_op_t *k, int64_t last)
{
  return k->causal && last < k->s ? last : k->s;
}

/* Computes c = a * b^T for some rows and the first columns; bt is b^T, packed. */
static void times_transposed(const sdpa_op_t *k, int64_t rows, int64_t columns, int64_t inner,
                             const float *a, const float *bt, float *c)
{
  int64_t width = k->tiles->width;
  cpu__gemm_tiled_t p = {
      .a_row = inner, .a_k = 1, .b_k = width, .b_vec = inner * width, .c_row = k->across};
  cpu__gemm_tiled(k->tiles, p, rows, (columns + width - 1) / width * width, inner, a, bt, c);
}

/* Computes c = scores * b for some rows, over the first keys; b is packed. */
static void times(const sdpa_op_t *k, int64_t rows, int64_t keys, const float *scores,
                  const float *b, float *c, int64_t columns)
{
  int64_t width = k->tiles->width;
  cpu__gemm_tiled_t p = {
      .a_row = k->across, .a_k = 1, .b_k = width, .b_vec = k->s * width, .c_row = columns};
  cpu__gemm_tiled(k->tiles, p, rows, columns, keys, scores, b, c);
}

/* Computes c = scores^T * b (+ c if `add`), summed over some rows; b has readable rows of `b_row`
 * elements. */
static void transposed_times(const sdpa_op_t *k, int64_t rows, int64_t keys, const float *scores,
                             const float *b, int64_t b_row, int add, float *c, int64_t columns)
{
  cpu__gemm_tiled_t p = {.a_row = 1,
                         .a_k = k->across,
                         .b_k = b_row,
                         .b_vec = k->tiles->width,
                         .c_row = columns,
                         .add = add};
  cpu__gemm_tiled(k->tiles, p, keys, columns, rows, scores, b, c);
}

/* Computes softmax(q * k^T * scale) for some queries; keys that a query does not meet get 0. */
static void find_scores(const sdpa_op_t *k, const part_t *p, int64_t first, int64_t rows)
{
  int64_t keys = seen(k, first + rows);
  times_transposed(k, rows, keys, k->d, p->q + first * k->d, p->kt, p->scores);
  for (int64_t i = 0; i < rows; i++) {
    int64_t own = seen(k, first + i + 1);
    float *row = p->scores + i * k->across;
    k->loops->softmax(own, k->scale, row);
    memset(row + own, 0, (size_t)(keys - own) * sizeof *row);
  }
}

static void attend(const sdpa_op_t *k, const part_t *p)
{
  cpu__gemm_tiled_pack_transposed(k->tiles, k->d, k->s, p->k, k->d, p->kt);
  cpu__gemm_tiled_pack(k->tiles, k->s, k->e, p->v, k->e, p->vs);
  for (int64_t first = 0; first < k->t; first += k->rows) {
    int64_t rows = k->t - first < k->rows ? k->t - first : k->rows;
    find_scores(k, p, first, rows);
    times(k, rows, seen(k, first + rows), p->scores, p->vs, p->out + first * k->e, k->e);
  }
}

/* Copies rows so that whole vectors can be read at their ends; returns the row stride. */
static int64_t copy_rows(const sdpa_op_t *k, int64_t rows, int64_t wide, const float *from,
                         float *to)
{
  int64_t width = k->tiles->width, stride = (wide + width - 1) / width * width;
  for (int64_t i = 0; i < rows; i++) {
    memcpy(to + i * stride, from + i * wide, (size_t)wide * sizeof *to);
    memset(to + i * stride + wide, 0, (size_t)(stride - wide) * sizeof *to);
  }
  return stride;
}

/* Sets the gradients of keys that no earlier block met to 0, so that this block can be added. */
static void clear_new(int64_t from, int64_t to, int64_t wide, float *d)
{
  if (d && to > from) memset(d + from * wide, 0, (size_t)((to - from) * wide) * sizeof *d);
}

static void block_backward(const sdpa_op_t *k, const part_t *p, int64_t first, int64_t rows)
{
  int64_t keys = seen(k, first + rows), before = first ? seen(k, first) : 0;
  const float *y = p->y + first * k->e, *dy = p->dy + first * k->e;
  int64_t wide = copy_rows(k, rows, k->e, dy, p->gs);
  find_scores(k, p, first, rows);
  clear_new(before, keys, k->e, p->dv);
  clear_new(before, keys, k->d, p->dk);
  if (p->dv) transposed_times(k, rows, keys, p->scores, p->gs, wide, 1, p->dv, k->e);
  if (!p->dq && !p->dk) return;
  times_transposed(k, rows, keys, k->e, dy, p->vt, p->dscores);
  for (int64_t i = 0; i < rows; i++)
    k->loops->softmax_bwd(keys, k->scale, p->scores + i * k->across,
                          k->loops->dot(k->e, y + i * k->e, dy + i * k->e),
                          p->dscores + i * k->across);
  if (p->dq) times(k, rows, keys, p->dscores, p->ks, p->dq + first * k->d, k->d);
  wide = copy_rows(k, rows, k->d, p->q + first * k->d, p->qs);
  if (p->dk) transposed_times(k, rows, keys, p->dscores, p->qs, wide, 1, p->dk, k->d);
}

static void attend_backward(const sdpa_op_t *k, const part_t *p)
{
  int64_t met = seen(k, k->t);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->d, k->s, p->k, k->d, p->kt);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->e, k->s, p->v, k->e, p->vt);
  cpu__gemm_tiled_pack(k->tiles, k->s, k->d, p->k, k->d, p->ks);
  for (int64_t first = 0; first < k->t; first += k->rows)
    block_backward(k, p, first, k->t - first < k->rows ? k->t - first : k->rows);
  clear_new(met, k->s, k->d, p->dk);
  clear_new(met, k->s, k->e, p->dv);
}

static int sdpa_run(ct_op_t *op, const ct_op_args_t *a)
{
  const sdpa_op_t *k = (const sdpa_op_t *)op;
  int64_t size = own_size(k, ct_op_goes_back(&op->desc));
  float *own = a->scratch;

#pragma omp parallel for if (k->heads > 1 && k->heads * k->t * k->s > 1024) schedule(static)
  for (int64_t i = 0; i < k->heads; i++) {
    part_t p = part(k, a, i, own + omp_get_thread_num() * size);
    if (a->pass & CT_FWD) attend(k, &p);
    if (a->pass & CT_BWD_DATA) attend_backward(k, &p);
  }
  return CT_OK;
}

static int sdpa_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  sdpa_op_t *k = (sdpa_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->tiles = cpu__tiles(op->dev);
  k->t = ct_dim_back(&d->x, 1);
  k->d = ct_dim_back(&d->x, 0);
  k->s = ct_dim_back(&d->x2, 1);
  k->e = ct_dim_back(&d->x3, 0);
  k->heads = ct_shape_count(&d->x) / (k->t * k->d);
  k->scale = (float)d->u.sdpa.scale;
  k->causal = d->u.sdpa.causal;
  k->across = (k->s + k->tiles->width - 1) / k->tiles->width * k->tiles->width;
  k->rows = BLOCK / k->across < 8 ? 8 : BLOCK / k->across;
  if (k->causal && k->rows > 64) k->rows = 64;
  if (k->rows > k->t) k->rows = k->t;
  info->scratch = (size_t)(op->dev->threads * own_size(k, ct_op_goes_back(d))) * sizeof(float);
  info->algorithm = "products, softmax by hand";
  return CT_OK;
}

static int sdpa_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (!d->u.sdpa.heads) return 1;
  snprintf(why, 128, "the CPU backend knows no attention with packed heads");
  return 0;
}

const cpu__op_kind_t cpu__sdpa = {.size = sizeof(sdpa_op_t),
                                  .bf16 = 1,
                                  .plain = 1,
                                  .stores = cpu__always,
                                  .supports = sdpa_supports,
                                  .prepare = sdpa_prepare,
                                  .run = sdpa_run};
