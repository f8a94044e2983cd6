/* Attention in bf16 on AMX, without a mask other than causality.
 *
 * As in sdpa.c, blocks of scores stay in the L2 cache.  The weights and the gradients of the scores
 * are rounded to bf16 for their products; softmax, sums and all results are float32 until they are
 * written.  The blocks depend on the sizes only. */
#include "backend/ct_sdpa.h"
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/amx.h"
#include "cpu/tile/bf16_dot.h"
#include <math.h>
#include <omp.h>
#include <string.h>

enum {
  T = CPU__AMX,
  K = CPU__AMX_K,
  ROWS = 64,                 /* queries of a block */
  KEYS = 256,                /* most keys of a block */
  ACROSS = KEYS + T,         /* row stride of scores */
  SCORES = ROWS * ACROSS,    /* of a block */
  TURNED = (KEYS + K) * ROWS /* of a block's weights, transposed */
};

typedef struct sdpa_amx {
  ct_op_t head;
  const cpu__loops_t *loops, *low; /* for float32 and bf16 */
  const cpu__tiles_t *pairs;
  ct_sdpa_t g;
  int64_t dp, ep, sp; /* d, e and s rounded up to whole products */
  int64_t parts;      /* of a head's queries, each a task of forward */
  float scale;
} sdpa_amx_t;

/* The workspace of a thread.  A B is [columns / 16][k / 2][16][2]. */
typedef struct own {
  uint16_t *kt, *vt;        /* B: features x keys */
  uint16_t *kb, *vb;        /* B: keys x features */
  uint16_t *q, *dy;         /* A: the rows of a block, padded with zeros */
  uint16_t *qb, *dyb;       /* B: rows of a block x features */
  uint16_t *p, *ds;         /* A: weights and gradients of scores, ROWS x ACROSS */
  uint16_t *turned;         /* A: one of these, transposed */
  float *scores, *dscores;  /* ROWS x ACROSS */
  float *out;               /* ROWS x ep or dp: y or dq of a block */
  float *dk, *dv;           /* sp x dp, sp x ep */
  float *most, *sum, *mean; /* of the queries of a block */
} own_t;

/* Lays a thread's workspace out from `base` on; returns its size in bytes. */
static int64_t lay_out(const sdpa_amx_t *k, char *base, own_t *own)
{
  int64_t back = ct_op_goes_back(&k->head.desc), used = 0, d = k->dp, e = k->ep, s = k->sp;
  const struct {
    void *at;
    int64_t bytes;
  } all[] = {{&own->kt, d * s * 2},
             {&own->vb, e * s * 2},
             {&own->q, ROWS * d * 2},
             {&own->p, SCORES * 2},
             {&own->scores, SCORES * 4},
             {&own->out, ROWS * (d > e ? d : e) * 4},
             {&own->most, ROWS * 4},
             {&own->sum, ROWS * 4},
             {&own->vt, back * e * s * 2},
             {&own->kb, back * d * s * 2},
             {&own->dy, back * ROWS * e * 2},
             {&own->qb, back * ROWS * d * 2},
             {&own->dyb, back * ROWS * e * 2},
             {&own->ds, back * SCORES * 2},
             {&own->turned, back * TURNED * 2},
             {&own->dscores, back * SCORES * 4},
             {&own->dk, back * s * d * 4},
             {&own->dv, back * s * e * 4},
             {&own->mean, back * ROWS * 4}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char *at = base ? base + used : NULL;
    memcpy(all[i].at, &at, sizeof at);
    used += ct_round_up(all[i].bytes, 64);
  }
  return used;
}

/* One head: its first rows. */
typedef struct part {
  const uint16_t *q, *k, *v, *y, *dy;
  uint16_t *out, *dq, *dk, *dv;
  float *log_sums;
  own_t own;
} part_t;

static const void *input_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->x : i == 1 ? a->x2 : a->x3;
}

static void *slope_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->dx : i == 1 ? a->dx2 : a->dx3;
}

static part_t part(const sdpa_amx_t *k, const ct_op_args_t *a, int64_t n, int64_t h, char *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t kv = h / (g->heads / g->kv_heads), q = n * g->t * g->q.row + h * g->d;
  int64_t key = n * g->s * g->k.row + g->k.at + kv * g->d;
  int64_t value = n * g->s * g->v.row + g->v.at + kv * g->e;
  int64_t y = n * g->t * g->y_row + h * g->e;
  part_t p = {.q = (const uint16_t *)a->x + q,
              .k = (const uint16_t *)input_of(a, g->k.input) + key,
              .v = (const uint16_t *)input_of(a, g->v.input) + value,
              .out = a->y ? (uint16_t *)a->y + y : NULL};
  lay_out(k, own, &p.own);
  p.y = p.out;
  if (ct_op_goes_back(&k->head.desc)) p.log_sums = (float *)a->saved + (n * g->heads + h) * g->t;
  if (!(a->pass & CT_BWD_DATA)) return p;
  p.dy = (const uint16_t *)a->dy + y;
  p.dq = a->dx ? (uint16_t *)a->dx + q : NULL;
  p.dk = slope_of(a, g->k.input);
  p.dv = slope_of(a, g->v.input);
  if (p.dk) p.dk += key;
  if (p.dv) p.dv += value;
  return p;
}

typedef struct range {
  int64_t from, to;
} range_t;

static int64_t last_of(const sdpa_amx_t *k, int64_t query)
{
  return ct_sdpa_seen(&k->head.desc, k->g.s, query);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Copies rows and pads them with zeros to `padded` elements, and to `all` rows. */
static void copy_rows(int64_t rows, int64_t wide, const uint16_t *from, int64_t row, int64_t all,
                      int64_t padded, uint16_t *to)
{
  for (int64_t i = 0; i < all; i++, to += padded) {
    int64_t n = i < rows ? wide : 0;
    if (n) memcpy(to, from + i * row, (size_t)n * 2);
    memset(to + n, 0, (size_t)(padded - n) * 2);
  }
}

/* Packs rows as the columns of a B of `wide` rows. */
static void pack_columns(const sdpa_amx_t *k, int64_t rows, int64_t wide, const uint16_t *from,
                         int64_t row, int64_t padded, uint16_t *to)
{
  for (int64_t i = 0; i < ct_round_up(rows, K); i += T, to += T * padded) {
    uint16_t copy[T * 256];
    int64_t n = ct_least(T, rows - i);
    for (int64_t j = 0; j < padded; j += 256) {
      int64_t width = ct_least(256, padded - j), valid = ct_least(width, wide - j);
      copy_rows(n > 0 ? n : 0, valid > 0 ? valid : 0, from + i * row + j, row, T, width, copy);
      k->pairs->transpose(T, width / 2, (const float *)(const void *)copy, width / 2,
                          (float *)(void *)(to + j * T), T);
    }
  }
}

/* Packs rows as those of a B with `padded` columns, whose k is `all`. */
static void pack_rows(int64_t rows, int64_t wide, const uint16_t *from, int64_t row, int64_t all,
                      int64_t padded, uint16_t *to)
{
  if (rows < all || wide < padded) memset(to, 0, (size_t)(all * padded) * 2);
  for (int64_t i = 0; i < rows; i += 2)
    cpu__interleave_rows(wide, from + i * row, i + 1 < rows ? from + (i + 1) * row : NULL,
                         (uint32_t *)(void *)(to + i * T), all / 2 * T);
}

/* ---- products -------------------------------------------------------------------------------- */

/* A product of tiles: C, rows x columns rounded up to whole tiles, with sums over k. */
typedef struct product {
  int64_t rows, columns, k;
  int64_t a_row, panel, c_row; /* strides; panel: from 16 columns of B to the next */
  int add;
} product_t;

static void multiply(product_t p, const uint16_t *a, const uint16_t *b, float *c)
{
  static const int64_t start[1] = {0};
  cpu__amx_t t = {.taps = 1,
                  .a_at = start,
                  .b_at = start,
                  .steps = ct_div_up(p.k, K),
                  .a_row = p.a_row,
                  .a_tile = T * p.a_row,
                  .b_tile = p.panel,
                  .c_row = p.c_row,
                  .c_down = T * p.c_row,
                  .c_right = T,
                  .add = p.add};
  for (int64_t j = 0; j < p.columns; j += 2 * T) {
    t.right = p.columns - j > T ? 2 : 1;
    for (int64_t i = 0; i < p.rows; i += 2 * T) {
      t.down = p.rows - i > T ? 2 : 1;
      cpu__amx_run(&t, a + i * p.a_row, b + j / T * p.panel, c + i * p.c_row + j);
    }
  }
}

/* Computes the scores of a block from rows of `padded` elements and a B of all keys. */
static void find_scores(int64_t rows, range_t keys, int64_t padded, const uint16_t *a,
                        const uint16_t *bt, float *scores)
{
  product_t p = {.rows = rows,
                 .columns = keys.to - keys.from,
                 .k = padded,
                 .a_row = padded,
                 .panel = padded * T,
                 .c_row = ACROSS};
  multiply(p, a, bt + keys.from * padded, scores);
}

/* Rounds rows of scores; the rest of the rows and of whole products becomes zero. */
static void round_scores(const sdpa_amx_t *k, int64_t rows, int64_t count, const float *from,
                         uint16_t *to)
{
  int64_t end = ct_round_up(count, T), all = ct_round_up(count, K);
  for (int64_t i = 0; i < ct_round_up(rows, K); i++, from += ACROSS, to += ACROSS) {
    int64_t n = i < rows ? end : 0;
    if (n) k->low->from_floats(n, from, to, 0, 0);
    memset(to + n, 0, (size_t)(all - n) * 2);
  }
}

/* Adds weights * B to c; B has the features of all keys, `padded` of them. */
static void add_features(const sdpa_amx_t *k, int64_t rows, range_t keys, const uint16_t *weights,
                         const uint16_t *b, int64_t padded, float *c, int add)
{
  product_t p = {.rows = rows,
                 .columns = padded,
                 .k = keys.to - keys.from,
                 .a_row = ACROSS,
                 .panel = k->sp * T,
                 .c_row = padded,
                 .add = add};
  multiply(p, weights, b + keys.from * T, c);
}

/* Adds weights^T * B to the gradients c of all keys; B has the features of the block's rows. */
static void add_to_keys(int64_t rows, range_t keys, const uint16_t *weights, uint16_t *turned,
                        const uint16_t *b, int64_t padded, float *c)
{
  int32_t table[ROWS];
  int64_t count = ct_round_up(keys.to - keys.from, K);
  cpu__gather_t g = {weights, ACROSS, table, ct_round_up(rows, K)};
  for (int i = 0; i < ROWS; i++)
    table[i] = i;
  for (int64_t j = 0; j < count; j += K)
    cpu__amx_pack_a(&g, j, turned + j * ROWS, ROWS);
  product_t p = {.rows = keys.to - keys.from,
                 .columns = padded,
                 .k = rows,
                 .a_row = ROWS,
                 .panel = ROWS * T,
                 .c_row = padded,
                 .add = 1};
  multiply(p, turned, b, c + keys.from * padded);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Describes the scores of a query and the keys of a block. */
static cpu__scores_t scores_of(const sdpa_amx_t *k, int64_t query, range_t keys)
{
  int64_t count = keys.to - keys.from, high = last_of(k, query) - keys.from;
  return (cpu__scores_t){.high = high < 0 ? 0 : ct_least(high, count),
                         .count = count,
                         .end = ct_round_up(count, T),
                         .scale = k->scale};
}

static void attend_keys(const sdpa_amx_t *k, const part_t *p, range_t queries, range_t keys)
{
  const own_t *own = &p->own;
  int64_t rows = queries.to - queries.from;
  find_scores(rows, keys, k->dp, own->q, own->kt, own->scores);
  for (int64_t i = 0; i < rows; i++) {
    cpu__scores_t s = scores_of(k, queries.from + i, keys);
    float *out = own->out + i * k->ep;
    float factor = k->loops->soft_part(&s, own->scores + i * ACROSS, own->most + i, own->sum + i);
    if (keys.from && factor != 1) k->loops->scale(factor, k->ep, out, out);
  }
  round_scores(k, rows, keys.to - keys.from, own->scores, own->p);
  add_features(k, rows, keys, own->p, own->vb, k->ep, own->out, keys.from > 0);
}

static void attend_block(const sdpa_amx_t *k, const part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  const own_t *own = &p->own;
  int64_t rows = queries.to - queries.from, end = last_of(k, queries.to - 1);
  copy_rows(rows, g->d, p->q + queries.from * g->q.row, g->q.row, ct_round_up(rows, T), k->dp,
            own->q);
  for (int64_t i = 0; i < rows; i++) {
    own->most[i] = -INFINITY;
    own->sum[i] = 0;
  }
  for (int64_t j = 0; j < end; j += KEYS)
    attend_keys(k, p, queries, (range_t){j, ct_least(j + KEYS, end)});
  for (int64_t i = 0; i < rows; i++) {
    float *out = own->out + i * k->ep, sum = own->sum[i];
    k->loops->scale(sum == 0 ? 0 : 1 / sum, g->e, out, out);
    k->low->from_floats(g->e, out, p->out + (queries.from + i) * g->y_row, 0, 0);
    if (p->log_sums)
      p->log_sums[queries.from + i] = sum == 0 ? INFINITY : own->most[i] + log2f(sum);
  }
}

static void sdpa_amx_forward(const sdpa_amx_t *k, const ct_op_args_t *a)
{
  const ct_sdpa_t *g = &k->g;
  own_t none;
  int64_t heads = g->n * g->heads, tasks = heads * k->parts, size = lay_out(k, NULL, &none);
#pragma omp parallel if (tasks > 1)
  {
    cpu__amx_begin();
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < tasks; i++) {
      int64_t head = i / k->parts, j = i % k->parts;
      range_t all = {g->t * j / k->parts, g->t * (j + 1) / k->parts};
      part_t p = part(k, a, head / g->heads, head % g->heads,
                      (char *)a->scratch + omp_get_thread_num() * size);
      int64_t keys = last_of(k, all.to - 1);
      pack_columns(k, keys, g->d, p.k, g->k.row, k->dp, p.own.kt);
      pack_rows(keys, g->e, p.v, g->v.row, k->sp, k->ep, p.own.vb);
      for (int64_t q = all.from; q < all.to; q += ROWS)
        attend_block(k, &p, (range_t){q, ct_least(q + ROWS, all.to)});
    }
    cpu__amx_end();
  }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Takes the rows of a block of queries, and finds the mean of each query's gradients. */
static void take_queries(const sdpa_amx_t *k, const part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  const own_t *own = &p->own;
  int64_t rows = queries.to - queries.from, y = queries.from * g->y_row;
  copy_rows(rows, g->d, p->q + queries.from * g->q.row, g->q.row, ROWS, k->dp, own->q);
  copy_rows(rows, g->e, p->dy + y, g->y_row, ROWS, k->ep, own->dy);
  pack_rows(ROWS, k->dp, own->q, k->dp, ROWS, k->dp, own->qb);
  pack_rows(ROWS, k->ep, own->dy, k->ep, ROWS, k->ep, own->dyb);
  for (int64_t i = 0; i < rows; i++) {
    float *of_y = own->scores, *of_dy = own->dscores;
    k->low->to_floats(g->e, p->y + y + i * g->y_row, of_y);
    k->low->to_floats(g->e, own->dy + i * k->ep, of_dy);
    own->mean[i] = k->loops->dot(g->e, of_y, of_dy);
  }
}

/* Computes the gradients of a block of queries, and adds to those of keys and values. */
static void block_backward(const sdpa_amx_t *k, const part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  const own_t *own = &p->own;
  int64_t rows = queries.to - queries.from, end = last_of(k, queries.to - 1);
  take_queries(k, p, queries);
  for (int64_t j = 0; j < end; j += KEYS) {
    range_t keys = {j, ct_least(j + KEYS, end)};
    find_scores(rows, keys, k->dp, own->q, own->kt, own->scores);
    find_scores(rows, keys, k->ep, own->dy, own->vt, own->dscores);
    for (int64_t i = 0; i < rows; i++) {
      cpu__scores_t s = scores_of(k, queries.from + i, keys);
      k->loops->soft_part_bwd(&s, p->log_sums[queries.from + i], own->mean[i],
                              own->scores + i * ACROSS, own->dscores + i * ACROSS, NULL, 0);
    }
    round_scores(k, rows, keys.to - j, own->scores, own->p);
    round_scores(k, rows, keys.to - j, own->dscores, own->ds);
    if (p->dq) add_features(k, rows, keys, own->ds, own->kb, k->dp, own->out, j > 0);
    if (p->dv) add_to_keys(rows, keys, own->p, own->turned, own->dyb, k->ep, own->dv);
    if (p->dk) add_to_keys(rows, keys, own->ds, own->turned, own->qb, k->dp, own->dk);
  }
  for (int64_t i = 0; p->dq && i < rows; i++)
    k->low->from_floats(g->d, own->out + i * k->dp, p->dq + (queries.from + i) * g->q.row, 0, 0);
}

/* The heads that share keys and values, one after the other. */
static void group_backward(const sdpa_amx_t *k, const ct_op_args_t *a, int64_t i, char *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t group = g->heads / g->kv_heads, n = i / g->kv_heads, kv = i % g->kv_heads;
  part_t p = part(k, a, n, kv * group, own);
  pack_columns(k, g->s, g->d, p.k, g->k.row, k->dp, p.own.kt);
  pack_columns(k, g->s, g->e, p.v, g->v.row, k->ep, p.own.vt);
  pack_rows(g->s, g->d, p.k, g->k.row, k->sp, k->dp, p.own.kb);
  memset(p.own.dk, 0, (size_t)(k->sp * k->dp) * sizeof(float));
  memset(p.own.dv, 0, (size_t)(k->sp * k->ep) * sizeof(float));
  for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
    p = part(k, a, n, h, own);
    for (int64_t q = 0; q < g->t; q += ROWS)
      block_backward(k, &p, (range_t){q, ct_least(q + ROWS, g->t)});
  }
  for (int64_t j = 0; j < g->s; j++) {
    if (p.dk) k->low->from_floats(g->d, p.own.dk + j * k->dp, p.dk + j * g->k.row, 0, 0);
    if (p.dv) k->low->from_floats(g->e, p.own.dv + j * k->ep, p.dv + j * g->v.row, 0, 0);
  }
}

static void sdpa_amx_backward(const sdpa_amx_t *k, const ct_op_args_t *a)
{
  own_t none;
  int64_t groups = k->g.n * k->g.kv_heads, size = lay_out(k, NULL, &none);
#pragma omp parallel if (groups > 1)
  {
    cpu__amx_begin();
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < groups; i++)
      group_backward(k, a, i, (char *)a->scratch + omp_get_thread_num() * size);
    cpu__amx_end();
  }
}

/* ---- op table -------------------------------------------------------------------------------- */

static int sdpa_amx_run(ct_op_t *op, const ct_op_args_t *a)
{
  const sdpa_amx_t *k = (const sdpa_amx_t *)op;
  if (a->pass & CT_FWD) sdpa_amx_forward(k, a);
  if (a->pass & CT_BWD_DATA) sdpa_amx_backward(k, a);
  return CT_OK;
}

static int sdpa_amx_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  sdpa_amx_t *k = (sdpa_amx_t *)op;
  const ct_op_desc_t *d = &op->desc;
  own_t none;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->low = cpu__loops(op->dev, CT_BF16);
  k->pairs = cpu__bf16_dot_tiles(op->dev);
  k->g = ct_sdpa_of(d);
  k->scale = (float)d->u.sdpa.scale;
  k->dp = ct_round_up(k->g.d, K);
  k->ep = ct_round_up(k->g.e, K);
  k->sp = ct_round_up(k->g.s, K);
  k->parts = 1; /* few heads: also their queries are divided among the threads */
  while (k->g.n * k->g.heads * k->parts < 2 * op->dev->threads && k->g.t / k->parts >= 2 * ROWS)
    k->parts *= 2;
  info->scratch = (size_t)(op->dev->threads * lay_out(k, NULL, &none));
  if (ct_op_goes_back(d)) info->saved = (size_t)(k->g.n * k->g.heads * k->g.t) * sizeof(float);
  info->algorithm = "bf16 AMX, softmax by hand";
  return CT_OK;
}

int cpu__sdpa_amx_can(const ct_op_desc_t *d)
{
  return d->x.dtype == CT_BF16 && d->u.sdpa.mask == CT_MASK_NONE && !d->u.sdpa.cached &&
         cpu__amx_is_there();
}

const cpu__op_kind_t cpu__sdpa_amx = {.size = sizeof(sdpa_amx_t),
                                      .bf16 = 1,
                                      .plain = 1,
                                      .prepare = sdpa_amx_prepare,
                                      .run = sdpa_amx_run};
