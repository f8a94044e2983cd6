/* Attention with given queries, keys and values, read and written where they are, also packed.
 *
 * As in FlashAttention-2 (Dao, 2023): a head's queries and keys are cut into blocks whose scores
 * stay in the L2 cache.  Forward computes the softmax online, block by block of keys, and saves the
 * logarithm of each query's sum.  Backward computes the scores again, all heads that share keys and
 * values on one thread.  The blocks depend on the sizes only, so the order of all sums does not
 * depend on the number of threads. */
#include "backend/ct_sdpa.h"
#include "base/ct_int.h"
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Size in floats of a block of scores in forward and backward, the most keys of a block, and how
 * few queries are done without packed keys. */
enum { FORWARD_BLOCK = 12288, BACKWARD_BLOCK = 49152, KEYS = 384, FEW = 3 };

typedef struct sdpa_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  ct_sdpa_t g;
  int64_t dw, ew;     /* d and e rounded up to whole vectors */
  int64_t keys;       /* of a block */
  int64_t rows, back; /* queries of a block, in forward and backward */
  int64_t across;     /* row stride of a block of scores: one vector more than its keys, since rows
                         a power of two apart would share few lines of the first cache */
  int64_t step;       /* rows of a tile */
  int64_t parts;      /* of a head's queries, each a task of forward */
  float scale;
  int bounded; /* queries may meet some of the keys only */
} sdpa_op_t;

/* The workspace of a thread. */
typedef struct own {
  float *kt, *vt;           /* k^T and v^T, packed */
  float *ks, *vs;           /* copies of k and v, in whole vectors */
  float *qs, *gs;           /* the same of the rows of q and dy of a block */
  float *scores, *dscores;  /* row stride `across` */
  float *most, *sum, *mean; /* of the queries of a block */
  float *hidden;            /* bias of the keys: 0 or -infinity */
  float *low, *high;        /* places of int64_t: the keys that the queries of a block meet */
} own_t;

/* One head: its first rows. */
typedef struct part {
  const float *q, *k, *v, *y, *dy, *mask;
  float *out, *dq, *dk, *dv, *log_sums;
  int64_t place;       /* of the first query */
  int64_t *low, *high; /* the keys that the queries of the block meet */
  float *dbias;        /* gradient of the bias; NULL: not wanted */
  int add;             /* dbias is added to */
  own_t own;
} part_t;

/* Lays a thread's workspace out from `base` on; returns its size in floats. */
static int64_t lay_out(const sdpa_op_t *k, float *base, own_t *own)
{
  int back = ct_op_goes_back(&k->head.desc);
  int64_t width = k->tiles->width, columns = ct_div_up(k->g.s, width) * width, used = 0;
  int64_t rows = back && k->back > k->rows ? k->back : k->rows;
  int64_t scores = rows * k->across, places = rows * (int64_t)(sizeof(int64_t) / sizeof(float));
  const struct {
    float **at;
    int64_t count;
  } all[] = {{&own->kt, columns * k->dw},
             {&own->vs, columns * k->ew},
             {&own->qs, rows * k->dw},
             {&own->scores, scores},
             {&own->most, rows},
             {&own->sum, rows},
             {&own->hidden, k->g.s},
             {&own->low, places},
             {&own->high, places},
             {&own->vt, back ? columns * k->ew : 0},
             {&own->ks, back ? columns * k->dw : 0},
             {&own->gs, back ? rows * k->ew : 0},
             {&own->dscores, back ? scores : 0},
             {&own->mean, back ? rows : 0}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i].at = base ? base + used : NULL;
    used += ct_div_up(all[i].count, 16) * 16;
  }
  return used;
}

static const float *input_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->x : i == 1 ? a->x2 : a->x3;
}

static float *slope_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->dx : i == 1 ? a->dx2 : a->dx3;
}

/* Turns the mask of the keys into a bias. */
static void hide_keys(const sdpa_op_t *k, part_t *p)
{
  if (k->head.desc.u.sdpa.mask != CT_MASK_KEYS) return;
  for (int64_t j = 0; j < k->g.s; j++)
    p->own.hidden[j] = p->mask[j] != 0 ? 0 : -INFINITY;
}

static part_t part(const sdpa_op_t *k, const ct_op_args_t *a, int64_t n, int64_t h, float *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t kv = h / (g->heads / g->kv_heads), q = n * g->t * g->q.row + h * g->d;
  int64_t key = n * g->s * g->k.row + g->k.at + kv * g->d;
  int64_t value = n * g->s * g->v.row + g->v.at + kv * g->e;
  int64_t y = n * g->t * g->y_row + h * g->e;
  part_t p = {.q = (const float *)a->x + q,
              .k = input_of(a, g->k.input) + key,
              .v = input_of(a, g->v.input) + value,
              .out = a->y ? (float *)a->y + y : NULL,
              .place = k->head.desc.u.sdpa.cached && a->position ? a->position[n] : 0};
  lay_out(k, own, &p.own);
  p.low = (int64_t *)(void *)p.own.low;
  p.high = (int64_t *)(void *)p.own.high;
  p.y = p.out;
  if (ct_op_goes_back(&k->head.desc)) p.log_sums = (float *)a->saved + (n * g->heads + h) * g->t;
  if (g->mask >= 0) p.mask = input_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
  hide_keys(k, &p);
  if (!(a->pass & CT_BWD_DATA)) return p;
  p.dy = (const float *)a->dy + y;
  p.dq = a->dx ? (float *)a->dx + q : NULL;
  p.dk = slope_of(a, g->k.input);
  p.dv = slope_of(a, g->v.input);
  if (p.dk) p.dk += key;
  if (p.dv) p.dv += value;
  return p;
}

/* ---- the keys of a query ---- */

typedef struct range {
  int64_t from, to;
} range_t;

static int64_t last_of(const sdpa_op_t *k, const part_t *p, int64_t query)
{
  return ct_sdpa_seen(&k->head.desc, k->g.s, p->place + query);
}

static int64_t first_of(const sdpa_op_t *k, const part_t *p, int64_t query)
{
  if (k->head.desc.u.sdpa.mask != CT_MASK_FIRST) return 0;
  int64_t first = p->mask[query] > 0 ? (int64_t)p->mask[query] : 0, last = last_of(k, p, query);
  return first < last ? first : last;
}

/* Notes the keys of the queries of a block, of which a query may meet none; returns the keys that
 * they all meet. */
static range_t find_bounds(const sdpa_op_t *k, const part_t *p, range_t queries)
{
  range_t all = {k->g.s, 0};
  for (int64_t i = 0; i < queries.to - queries.from; i++) {
    p->low[i] = first_of(k, p, queries.from + i);
    p->high[i] = last_of(k, p, queries.from + i);
    if (p->low[i] == p->high[i]) continue;
    all.from = ct_least(all.from, p->low[i]);
    if (p->high[i] > all.to) all.to = p->high[i];
  }
  return all.to ? all : (range_t){0};
}

/* Returns the queries of a block, out of `rows`, that meet some of the keys; between them may be
 * some that do not. */
static range_t queries_of(const sdpa_op_t *k, const part_t *p, int64_t rows, range_t keys)
{
  range_t r = {0, rows};
  if (!k->bounded) return r;
  while (r.from < r.to && (p->high[r.from] <= keys.from || p->low[r.from] >= keys.to))
    r.from++;
  while (r.to > r.from && (p->high[r.to - 1] <= keys.from || p->low[r.to - 1] >= keys.to))
    r.to--;
  return r;
}

/* Returns those of the keys that some queries of the block meet. */
static range_t keys_of(const part_t *p, range_t rows, range_t keys)
{
  range_t met = {keys.to, keys.from};
  for (int64_t i = rows.from; i < rows.to; i++) {
    if (p->low[i] < p->high[i] && p->low[i] < met.from) met.from = p->low[i];
    if (p->high[i] > met.to) met.to = p->high[i];
  }
  if (met.from < keys.from) met.from = keys.from;
  if (met.to > keys.to) met.to = keys.to;
  return met.from < met.to ? met : (range_t){keys.from, keys.from};
}

/* ---- products ---- */

/* Computes scores a * b^T of a block; bt is b^T, packed, of all keys. */
static void times_transposed(const sdpa_op_t *k, const part_t *p, int64_t rows, range_t keys,
                             int64_t inner, const float *a, int64_t a_row, const float *bt,
                             float *c)
{
  int64_t width = k->tiles->width, columns = ct_div_up(keys.to - keys.from, width) * width, n;
  cpu__gemm_tiled_t g = {
      .a_row = a_row, .a_k = 1, .b_k = width, .b_vec = inner * width, .c_row = k->across};
  for (int64_t j = 0; j < columns; j += n) {
    n = !k->bounded || columns - j <= 3 * width ? columns - j : 2 * width;
    range_t r = queries_of(k, p, rows, (range_t){keys.from + j, keys.from + j + n});
    cpu__gemm_tiled(k->tiles, g, r.to - r.from, n, inner, a + r.from * a_row,
                    bt + (keys.from + j) * inner, c + r.from * k->across + j);
  }
}

/* Computes c = scores * b, or adds to it; b has rows of whole vectors. */
static void times(const sdpa_op_t *k, const part_t *p, int64_t rows, range_t keys,
                  const float *scores, const float *b, int64_t b_row, float *c, int64_t c_row,
                  int64_t columns, int add)
{
  int64_t n = ct_div_up(rows, k->step);
  cpu__gemm_tiled_t g = {.a_row = k->across,
                         .a_k = 1,
                         .b_k = b_row,
                         .b_vec = k->tiles->width,
                         .c_row = c_row,
                         .add = add};
  for (int64_t i = 0; i < n; i++) {
    range_t r = {rows * i / n, rows * (i + 1) / n}, met = keys_of(p, r, keys);
    if (add && met.from == met.to) continue;
    cpu__gemm_tiled(k->tiles, g, r.to - r.from, columns, met.to - met.from,
                    scores + r.from * k->across + met.from - keys.from, b + met.from * b_row,
                    c + r.from * c_row);
  }
}

/* Computes c = scores^T * b for the keys, or adds to it. */
static void transposed_times(const sdpa_op_t *k, const part_t *p, int64_t rows, range_t keys,
                             const float *scores, const float *b, int64_t b_row, float *c,
                             int64_t c_row, int64_t columns, int add)
{
  int64_t count = keys.to - keys.from, n = ct_div_up(count, k->step);
  cpu__gemm_tiled_t g = {.a_row = 1,
                         .a_k = k->across,
                         .b_k = b_row,
                         .b_vec = k->tiles->width,
                         .c_row = c_row,
                         .add = add};
  for (int64_t i = 0; i < n; i++) {
    int64_t from = count * i / n, to = count * (i + 1) / n;
    range_t r = queries_of(k, p, rows, (range_t){keys.from + from, keys.from + to});
    if (add && r.from == r.to) continue;
    cpu__gemm_tiled(k->tiles, g, to - from, columns, r.to - r.from,
                    scores + r.from * k->across + from, b + r.from * b_row,
                    c + (keys.from + from) * c_row);
  }
}

/* Copies rows so that whole vectors can be read at their ends. */
static void copy_rows(int64_t rows, int64_t wide, int64_t padded, const float *from, int64_t row,
                      float *to)
{
  for (int64_t i = 0; i < rows; i++) {
    memcpy(to + i * padded, from + i * row, (size_t)wide * sizeof *to);
    if (padded > wide) memset(to + i * padded + wide, 0, (size_t)(padded - wide) * sizeof *to);
  }
}

/* ---- softmax ---- */

/* Describes the scores of query i of a block and the keys of a block. */
static cpu__scores_t scores_of(const sdpa_op_t *k, const part_t *p, int64_t query, int64_t i,
                               range_t keys)
{
  int64_t count = keys.to - keys.from, low = p->low[i] - keys.from, high = p->high[i] - keys.from;
  cpu__scores_t s = {.low = low > 0 ? low : 0, .high = ct_least(high, count), .count = count};
  s.end = ct_div_up(count, k->tiles->width) * k->tiles->width;
  s.scale = k->scale;
  if (k->head.desc.u.sdpa.mask == CT_MASK_KEYS) s.bias = p->own.hidden + keys.from;
  if (k->head.desc.u.sdpa.mask == CT_MASK_BIAS) s.bias = p->mask + query * k->g.s + keys.from;
  return s;
}

/* ---- forward ---- */

/* A few queries, without packed keys; values have whole vectors. */
static void attend_few(const sdpa_op_t *k, const part_t *p)
{
  const ct_sdpa_t *g = &k->g;
  range_t all = {0, g->s};
  for (int64_t t = 0; t < g->t; t++) {
    int64_t low = p->low[t], high = p->high[t];
    float most = -INFINITY, sum = 0, *y = p->out + t * g->y_row;
    cpu__gemm_tiled_t values = {
        .a_row = 1, .a_k = 1, .b_k = g->v.row, .b_vec = k->tiles->width, .c_row = g->e};
    for (int64_t j = low; j < high; j++)
      p->own.scores[j] = k->loops->dot(g->d, p->q + t * g->q.row, p->k + j * g->k.row);
    cpu__scores_t s = scores_of(k, p, t, t, all);
    k->loops->soft_part(&s, p->own.scores, &most, &sum);
    cpu__gemm_tiled(k->tiles, values, 1, g->e, high - low, p->own.scores + low,
                    p->v + low * g->v.row, y);
    k->loops->scale(sum > 0 ? 1 / sum : 0, g->e, y, y);
  }
}

/* Computes the weights of some keys for the queries of a block, and their share of the results. */
static void attend_keys(const sdpa_op_t *k, const part_t *p, range_t queries, range_t keys, int add)
{
  const ct_sdpa_t *g = &k->g;
  int64_t rows = queries.to - queries.from;
  float *out = p->out + queries.from * g->y_row;
  times_transposed(k, p, rows, keys, g->d, p->own.qs, k->dw, p->own.kt, p->own.scores);
  for (int64_t i = 0; i < rows; i++) {
    cpu__scores_t s = scores_of(k, p, queries.from + i, i, keys);
    float factor =
        k->loops->soft_part(&s, p->own.scores + i * k->across, p->own.most + i, p->own.sum + i);
    if (add && factor != 1) k->loops->scale(factor, g->e, out + i * g->y_row, out + i * g->y_row);
  }
  times(k, p, rows, keys, p->own.scores, p->own.vs, k->ew, out, g->y_row, g->e, add);
}

static void attend_block(const sdpa_op_t *k, const part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  int64_t rows = queries.to - queries.from;
  range_t met = find_bounds(k, p, queries);
  copy_rows(rows, g->d, k->dw, p->q + queries.from * g->q.row, g->q.row, p->own.qs);
  for (int64_t i = 0; i < rows; i++) {
    p->own.most[i] = -INFINITY;
    p->own.sum[i] = 0;
  }
  int64_t from = met.from / k->keys * k->keys;
  for (int64_t j = from; j == from || j < met.to; j += k->keys)
    attend_keys(k, p, queries, (range_t){j, ct_least(j + k->keys, met.to)}, j > from);
  for (int64_t i = 0; i < rows; i++) {
    float *y = p->out + (queries.from + i) * g->y_row, sum = p->own.sum[i];
    k->loops->scale(sum == 0 ? 0 : 1 / sum, g->e, y, y);
    if (p->log_sums)
      p->log_sums[queries.from + i] = sum == 0 ? INFINITY : p->own.most[i] + log2f(sum);
  }
}

static void attend(const sdpa_op_t *k, part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  int64_t keys = last_of(k, p, queries.to - 1);
  if (g->t <= FEW && g->e == k->ew && !p->log_sums) {
    find_bounds(k, p, queries);
    attend_few(k, p);
    return;
  }
  cpu__gemm_tiled_pack_transposed(k->tiles, g->d, keys, p->k, g->k.row, p->own.kt);
  copy_rows(keys, g->e, k->ew, p->v, g->v.row, p->own.vs);
  for (int64_t first = queries.from; first < queries.to; first += k->rows)
    attend_block(k, p, (range_t){first, ct_least(first + k->rows, queries.to)});
}

static void sdpa_forward(const sdpa_op_t *k, const ct_op_args_t *a)
{
  const ct_sdpa_t *g = &k->g;
  own_t own;
  int64_t heads = g->n * g->heads, tasks = heads * k->parts, size = lay_out(k, NULL, &own);

#pragma omp parallel for if (tasks > 1 && heads * g->t * g->s > 1024) schedule(dynamic)
  for (int64_t i = 0; i < tasks; i++) {
    int64_t head = i / k->parts, j = i % k->parts;
    range_t queries = {g->t * j / k->parts, g->t * (j + 1) / k->parts};
    float *workspace = (float *)a->scratch + omp_get_thread_num() * size;
    part_t p = part(k, a, head / g->heads, head % g->heads, workspace);
    attend(k, &p, queries);
  }
}

/* ---- backward ---- */

/* Copies the rows of a block of queries and finds the mean of each query's gradients. */
static range_t take_queries(const sdpa_op_t *k, const part_t *p, range_t queries)
{
  const ct_sdpa_t *g = &k->g;
  int64_t rows = queries.to - queries.from, y = queries.from * g->y_row;
  copy_rows(rows, g->d, k->dw, p->q + queries.from * g->q.row, g->q.row, p->own.qs);
  copy_rows(rows, g->e, k->ew, p->dy + y, g->y_row, p->own.gs);
  for (int64_t i = 0; i < rows; i++)
    p->own.mean[i] = k->loops->dot(g->e, p->y + y + i * g->y_row, p->own.gs + i * k->ew);
  return find_bounds(k, p, queries);
}

/* Computes the weights of some keys and the gradients of their scores. */
static void find_slopes(const sdpa_op_t *k, const part_t *p, range_t queries, range_t keys)
{
  const ct_sdpa_t *g = &k->g;
  int64_t rows = queries.to - queries.from;
  times_transposed(k, p, rows, keys, g->d, p->own.qs, k->dw, p->own.kt, p->own.scores);
  times_transposed(k, p, rows, keys, g->e, p->own.gs, k->ew, p->own.vt, p->own.dscores);
  for (int64_t i = 0; i < rows; i++) {
    int64_t query = queries.from + i;
    cpu__scores_t s = scores_of(k, p, query, i, keys);
    float *dbias = p->dbias ? p->dbias + query * g->s + keys.from : NULL;
    k->loops->soft_part_bwd(&s, p->log_sums[query], p->own.mean[i], p->own.scores + i * k->across,
                            p->own.dscores + i * k->across, dbias, p->add);
  }
}

/* Computes the gradients of a block of queries; add: those of keys and values are added to. */
static void block_backward(const sdpa_op_t *k, const part_t *p, range_t queries, int add)
{
  const ct_sdpa_t *g = &k->g;
  const own_t *own = &p->own;
  int64_t rows = queries.to - queries.from;
  range_t met = take_queries(k, p, queries), all = add && !p->dbias ? met : (range_t){0, g->s};
  int64_t from = all.from / k->keys * k->keys;
  for (int64_t j = from; j == from || j < all.to; j += k->keys) {
    range_t keys = {j, ct_least(j + k->keys, all.to)};
    find_slopes(k, p, queries, keys);
    if (p->dq)
      times(k, p, rows, keys, own->dscores, own->ks, k->dw, p->dq + queries.from * g->q.row,
            g->q.row, g->d, j > from);
    if (p->dv)
      transposed_times(k, p, rows, keys, own->scores, own->gs, k->ew, p->dv, g->v.row, g->e, add);
    if (p->dk)
      transposed_times(k, p, rows, keys, own->dscores, own->qs, k->dw, p->dk, g->k.row, g->d, add);
  }
}

/* Packs the keys and values of a head that the queries before `end` meet. */
static void pack_keys(const sdpa_op_t *k, const part_t *p, int64_t end)
{
  const ct_sdpa_t *g = &k->g;
  int64_t keys = last_of(k, p, end - 1);
  cpu__gemm_tiled_pack_transposed(k->tiles, g->d, keys, p->k, g->k.row, p->own.kt);
  cpu__gemm_tiled_pack_transposed(k->tiles, g->e, keys, p->v, g->v.row, p->own.vt);
  copy_rows(keys, g->d, k->dw, p->k, g->k.row, p->own.ks);
}

/* Returns 1 if each head of each sample has a bias of its own. */
static int owns_bias(const ct_sdpa_t *g)
{
  return (g->mask_h || g->heads == 1) && (g->mask_n || g->n == 1);
}

static int biased(const sdpa_op_t *k, const ct_op_args_t *a)
{
  return k->head.desc.u.sdpa.mask == CT_MASK_BIAS && slope_of(a, k->g.mask);
}

/* The heads that share keys and values, one after the other.  The last block of queries comes
 * first: of all blocks it meets the most keys, and it overwrites their gradients. */
static void group_backward(const sdpa_op_t *k, const ct_op_args_t *a, int64_t i, float *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t group = g->heads / g->kv_heads, n = i / g->kv_heads, kv = i % g->kv_heads;
  for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
    part_t p = part(k, a, n, h, own);
    if (biased(k, a) && owns_bias(g))
      p.dbias = slope_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
    if (h == kv * group) pack_keys(k, &p, g->t);
    for (int64_t j = ct_div_up(g->t, k->back) - 1, last = j; j >= 0; j--) {
      range_t queries = {j * k->back, ct_least((j + 1) * k->back, g->t)};
      block_backward(k, &p, queries, h > kv * group || j < last);
    }
  }
}

/* Computes some rows of the gradient of one of the biases that samples or heads share: the sum over
 * them, in their order. */
static void shared_bias(const sdpa_op_t *k, const ct_op_args_t *a, int64_t task, float *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t blocks = ct_div_up(g->t, k->back), first = task % blocks * k->back, bias = task / blocks;
  int64_t h0 = g->mask_h ? bias % g->heads : 0, add = 0;
  int64_t n0 = g->mask_n ? bias / (g->mask_h ? g->heads : 1) : 0;
  range_t queries = {first, ct_least(first + k->back, g->t)};
  for (int64_t n = n0; n < (g->mask_n ? n0 + 1 : g->n); n++)
    for (int64_t h = h0; h < (g->mask_h ? h0 + 1 : g->heads); h++) {
      part_t p = part(k, a, n, h, own);
      p.dbias = slope_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
      p.add = (int)add++ > 0;
      pack_keys(k, &p, queries.to);
      take_queries(k, &p, queries);
      for (int64_t j = 0; j < g->s; j += k->keys)
        find_slopes(k, &p, queries, (range_t){j, ct_least(j + k->keys, g->s)});
    }
}

static void sdpa_backward(const sdpa_op_t *k, const ct_op_args_t *a)
{
  const ct_sdpa_t *g = &k->g;
  own_t own;
  int64_t groups = g->n * g->kv_heads, size = lay_out(k, NULL, &own);
  int64_t biases = (g->mask_n ? g->n : 1) * (g->mask_h ? g->heads : 1);

#pragma omp parallel for if (groups > 1 && groups * g->t * g->s > 1024) schedule(dynamic)
  for (int64_t i = 0; i < groups; i++)
    group_backward(k, a, i, (float *)a->scratch + omp_get_thread_num() * size);
  if (!biased(k, a) || owns_bias(g)) return;
  biases *= ct_div_up(g->t, k->back);

#pragma omp parallel for if (biases > 1) schedule(dynamic)
  for (int64_t i = 0; i < biases; i++)
    shared_bias(k, a, i, (float *)a->scratch + omp_get_thread_num() * size);
}

/* ---- op table ---- */

static int sdpa_run(ct_op_t *op, const ct_op_args_t *a)
{
  const sdpa_op_t *k = (const sdpa_op_t *)op;
  if (a->pass & CT_FWD) sdpa_forward(k, a);
  if (a->pass & CT_BWD_DATA) sdpa_backward(k, a);
  return CT_OK;
}

/* Cuts `count` into the fewest parts of at most `most`; returns the size of a part. */
static int64_t equal_parts(int64_t count, int64_t most)
{
  return ct_div_up(count, ct_div_up(count, most));
}

static void choose_blocks(sdpa_op_t *k)
{
  int64_t width = k->tiles->width, step = k->tiles->rows[2];
  k->step = step;
  k->keys = ct_div_up(equal_parts(k->g.s, KEYS), 2 * width) * 2 * width;
  k->across = ct_div_up(ct_least(k->keys, k->g.s), width) * width + width;
  k->rows = equal_parts(k->g.t, FORWARD_BLOCK / k->across);
  k->back = equal_parts(k->g.t, BACKWARD_BLOCK / k->across);
}

static int sdpa_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  sdpa_op_t *k = (sdpa_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t width, threads = op->dev->threads;
  own_t own;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->tiles = cpu__tiles(op->dev);
  k->g = ct_sdpa_of(d);
  k->scale = (float)d->u.sdpa.scale;
  k->bounded = d->u.sdpa.causal || d->u.sdpa.mask == CT_MASK_FIRST;
  width = k->tiles->width;
  k->dw = ct_div_up(k->g.d, width) * width;
  k->ew = ct_div_up(k->g.e, width) * width;
  choose_blocks(k);
  k->parts = 1; /* few heads: also their queries are divided among the threads */
  while (k->g.n * k->g.heads * k->parts < 2 * threads && k->g.t / k->parts >= 8 * k->step)
    k->parts *= 2;
  info->scratch = (size_t)(threads * lay_out(k, NULL, &own)) * sizeof(float);
  if (ct_op_goes_back(d)) info->saved = (size_t)(k->g.n * k->g.heads * k->g.t) * sizeof(float);
  info->algorithm = "products, softmax by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__sdpa = {.size = sizeof(sdpa_op_t),
                                  .bf16 = 1,
                                  .plain = 1,
                                  .stores = cpu__always,
                                  .prepare = sdpa_prepare,
                                  .run = sdpa_run};
