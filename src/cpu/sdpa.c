/* Attention with given queries, keys and values, read and written where they are, also packed.
 *
 * Forward: each head runs on one thread, block by block of queries, so that its scores stay in the
 * caches; backward: all heads that share keys and values, block by block.  Backward computes the
 * scores again.  A block is cut into tiles of a few queries; a tile computes the keys that its
 * queries meet, from `low` to `high`.  The blocks depend on the sizes only, so the order of all
 * sums does not depend on the number of threads. */
#include "backend/ct_sdpa.h"
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Size in floats of a block of scores, and how few queries are done without packed keys. */
enum { BLOCK = 49152, FEW = 3 };

typedef struct sdpa_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  ct_sdpa_t g;
  int64_t across; /* S rounded up to whole vectors, and one vector more: rows that are a power of
                        two apart would share few lines of the first cache */
  int64_t dw, ew; /* d and e rounded up to whole vectors */
  int64_t rows, step; /* queries of a block, and of a tile */
  int64_t parts;      /* of a head's queries, each a task */
  float scale;
  int biased;
} sdpa_op_t;

/* One head: its first rows, and the workspace of its thread. */
typedef struct part {
  const float *q, *k, *v, *y, *dy, *mask;
  float *out, *dq, *dk, *dv;
  int64_t place, keys;      /* place of the first query; keys that the last one meets */
  float *kt, *vt;           /* k^T and v^T, packed */
  float *vs, *ks, *qs, *gs; /* packed v and k; copies of rows of q and dy, in whole vectors */
  float *scores, *dscores;  /* row stride `across` */
  int64_t *low, *high;      /* of the tiles of the block */
  float *dbias;             /* slopes of the bias's rows, of S each; NULL: not wanted */
  int add;                  /* dbias is added to */
} part_t;

static int64_t tiles_of(const sdpa_op_t *k)
{
  return (k->rows + k->step - 1) / k->step;
}

/* Floats of a thread's workspace. */
static int64_t own_size(const sdpa_op_t *k)
{
  int64_t columns = k->across * (k->dw + k->ew), scores = k->rows * k->across;
  int64_t bounds = 4 * tiles_of(k);
  if (!ct_op_goes_back(&k->head.desc)) return columns + scores + bounds;
  return 2 * (columns + scores) + k->rows * (k->dw + k->ew) + bounds;
}

static void set_workspace(const sdpa_op_t *k, part_t *p, float *own)
{
  int64_t scores = k->rows * k->across;
  p->low = (int64_t *)(void *)own;
  p->high = p->low + tiles_of(k);
  p->kt = (float *)(void *)(p->high + tiles_of(k));
  p->vs = p->kt + k->dw * k->across;
  p->scores = p->vs + k->ew * k->across;
  p->vt = p->scores + scores;
  p->ks = p->vt + k->ew * k->across;
  p->dscores = p->ks + k->dw * k->across;
  p->qs = p->dscores + scores;
  p->gs = p->qs + k->rows * k->dw;
}

static const float *input_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->x : i == 1 ? a->x2 : a->x3;
}

static float *slope_of(const ct_op_args_t *a, int i)
{
  return i == 0 ? a->dx : i == 1 ? a->dx2 : a->dx3;
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
  set_workspace(k, &p, own);
  p.y = p.out;
  if (g->mask >= 0) p.mask = input_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
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

/* Queries of a tile, and the keys that they meet. */
typedef struct span {
  int64_t first, rows, low, high;
} span_t;

/* Returns tile i of the block of `rows` queries that begins with query `first`; low is at a vector,
 * high is 0 or more than low. */
static span_t span_of(const sdpa_op_t *k, const part_t *p, int64_t first, int64_t rows, int64_t i)
{
  span_t s = {.first = i * k->step, .low = k->g.s};
  s.rows = rows - s.first < k->step ? rows - s.first : k->step;
  for (int64_t j = s.first; j < s.first + s.rows; j++) {
    int64_t low = first_of(k, p, first + j), high = last_of(k, p, first + j);
    if (low == high) continue;
    if (low < s.low) s.low = low;
    if (high > s.high) s.high = high;
  }
  s.low = s.high ? s.low / k->tiles->width * k->tiles->width : 0;
  return s;
}

/* ---- products ---- */

/* Computes c = a * b^T for the queries of a tile; bt is b^T, packed, of k->across columns. */
static void times_transposed(const sdpa_op_t *k, const span_t *s, int64_t inner, const float *a,
                             int64_t a_row, const float *bt, float *c)
{
  int64_t width = k->tiles->width, columns = (s->high - s->low + width - 1) / width * width;
  cpu__gemm_tiled_t p = {
      .a_row = a_row, .a_k = 1, .b_k = width, .b_vec = inner * width, .c_row = k->across};
  cpu__gemm_tiled(k->tiles, p, s->rows, columns, inner, a + s->first * a_row, bt + s->low * inner,
                  c + s->first * k->across + s->low);
}

/* Computes c = scores * b for the queries of a tile; b is packed. */
static void times(const sdpa_op_t *k, const part_t *p, const span_t *s, const float *scores,
                  const float *b, float *c, int64_t c_row, int64_t columns)
{
  int64_t width = k->tiles->width;
  cpu__gemm_tiled_t g = {
      .a_row = k->across, .a_k = 1, .b_k = width, .b_vec = p->keys * width, .c_row = c_row};
  cpu__gemm_tiled(k->tiles, g, s->rows, columns, s->high - s->low,
                  scores + s->first * k->across + s->low, b + s->low * width, c + s->first * c_row);
}

/* Computes c += scores^T * b for some keys, summed over the queries of a block that meet them. */
static void transposed_times(const sdpa_op_t *k, const part_t *p, int64_t rows, const float *scores,
                             const float *b, int64_t b_row, float *c, int64_t c_row,
                             int64_t columns)
{
  int64_t n = (rows + k->step - 1) / k->step, high = 0, low = k->g.s;
  cpu__gemm_tiled_t g = {.a_row = 1,
                         .a_k = k->across,
                         .b_k = b_row,
                         .b_vec = k->tiles->width,
                         .c_row = c_row,
                         .add = 1};
  for (int64_t i = 0; i < n; i++) {
    if (p->high[i] && p->low[i] < low) low = p->low[i];
    if (p->high[i] > high) high = p->high[i];
  }
  for (int64_t j = low; j < high; j += k->step) {
    int64_t keys = high - j < k->step ? high - j : k->step;
    for (int64_t from = 0, to; from < n; from = to) {
      for (to = from; to < n && p->high[to] > j && p->low[to] < j + keys; to++)
        continue;
      int64_t first = from * k->step, end = to * k->step < rows ? to * k->step : rows;
      if (to > from)
        cpu__gemm_tiled(k->tiles, g, keys, columns, end - first, scores + first * k->across + j,
                        b + first * b_row, c + j * c_row);
      else
        to++;
    }
  }
}

/* ---- softmax ---- */

/* Hides keys and adds the bias: the scores become those before the softmax. */
static void mask_row(const sdpa_op_t *k, const part_t *p, int64_t query, int64_t low, int64_t high,
                     float *row)
{
  int is_bias = k->head.desc.u.sdpa.mask == CT_MASK_BIAS;
  const float *m = is_bias ? p->mask + query * k->g.s : p->mask;
  float scale = k->scale;
  if (is_bias)
    for (int64_t j = low; j < high; j++)
      row[j] = row[j] * scale + m[j];
  else
    for (int64_t j = low; j < high; j++)
      row[j] = m[j] != 0 ? row[j] * scale : -INFINITY;
}

/* Computes the softmax of a query's scores; 0 for keys that it does not meet. */
static void soft_row(const sdpa_op_t *k, const part_t *p, int64_t query, float *row)
{
  int64_t low = first_of(k, p, query), high = last_of(k, p, query);
  ct_mask_t mask = k->head.desc.u.sdpa.mask;
  if (mask != CT_MASK_KEYS && mask != CT_MASK_BIAS) {
    if (high > low) k->loops->softmax(high - low, k->scale, row + low);
    return;
  }
  mask_row(k, p, query, low, high, row);
  float most = -INFINITY;
  for (int64_t j = low; j < high; j++)
    most = row[j] > most ? row[j] : most;
  if (most > -INFINITY)
    k->loops->softmax(high - low, 1, row + low);
  else
    memset(row + low, 0, (size_t)(high - low) * sizeof *row);
}

/* Sets the scores of keys that a query of a tile does not meet to 0: those of its tile, and behind
 * it those that a tile of keys may read. */
static void clear_rest(const sdpa_op_t *k, int64_t low, int64_t high, const span_t *s, float *row)
{
  int64_t start = s->low - k->step > 0 ? s->low - k->step : 0;
  int64_t end = s->high + k->step < k->across ? s->high + k->step : k->across;
  if (low > start) memset(row + start, 0, (size_t)(low - start) * sizeof *row);
  if (end > high) memset(row + high, 0, (size_t)(end - high) * sizeof *row);
}

/* Computes the weights of the keys for the queries of a tile. */
static void find_scores(const sdpa_op_t *k, const part_t *p, int64_t first, const span_t *s)
{
  times_transposed(k, s, k->g.d, p->q + first * k->g.q.row, k->g.q.row, p->kt, p->scores);
  for (int64_t i = s->first; i < s->first + s->rows; i++) {
    float *row = p->scores + i * k->across;
    soft_row(k, p, first + i, row);
    clear_rest(k, first_of(k, p, first + i), last_of(k, p, first + i), s, row);
  }
}

/* ---- forward ---- */

/* A few queries, without packed keys; values have whole vectors. */
static void attend_few(const sdpa_op_t *k, const part_t *p)
{
  const ct_sdpa_t *g = &k->g;
  for (int64_t t = 0; t < g->t; t++) {
    int64_t low = first_of(k, p, t), high = last_of(k, p, t);
    cpu__gemm_tiled_t values = {
        .a_row = k->across, .a_k = 1, .b_k = g->v.row, .b_vec = k->tiles->width, .c_row = g->e};
    for (int64_t j = low; j < high; j++)
      p->scores[j] = k->loops->dot(g->d, p->q + t * g->q.row, p->k + j * g->k.row);
    soft_row(k, p, t, p->scores);
    cpu__gemm_tiled(k->tiles, values, 1, g->e, high - low, p->scores + low, p->v + low * g->v.row,
                    p->out + t * g->y_row);
  }
}

/* The queries from `first` to `end`. */
static void attend(const sdpa_op_t *k, part_t *p, int64_t first, int64_t end)
{
  const ct_sdpa_t *g = &k->g;
  p->keys = last_of(k, p, end - 1);
  if (g->t <= FEW && g->e == k->ew) {
    attend_few(k, p);
    return;
  }
  cpu__gemm_tiled_pack_transposed(k->tiles, g->d, p->keys, p->k, g->k.row, p->kt);
  cpu__gemm_tiled_pack(k->tiles, p->keys, g->e, p->v, g->v.row, p->vs);
  for (; first < end; first += k->step) {
    span_t s = span_of(k, p, first, end - first, 0);
    find_scores(k, p, first, &s);
    times(k, p, &s, p->scores, p->vs, p->out + first * g->y_row, g->y_row, g->e);
  }
}

static void sdpa_forward(const sdpa_op_t *k, const ct_op_args_t *a)
{
  const ct_sdpa_t *g = &k->g;
  int64_t heads = g->n * g->heads, tasks = heads * k->parts, size = own_size(k);
  int64_t rows = (g->t + k->parts - 1) / k->parts;

#pragma omp parallel for if (tasks > 1 && heads * g->t * g->s > 1024) schedule(dynamic)
  for (int64_t i = 0; i < tasks; i++) {
    int64_t head = i / k->parts, first = i % k->parts * rows;
    int64_t end = first + rows < g->t ? first + rows : g->t;
    float *own = (float *)a->scratch + omp_get_thread_num() * size;
    part_t p = part(k, a, head / g->heads, head % g->heads, own);
    if (end > first) attend(k, &p, first, end);
  }
}

/* ---- backward ---- */

/* Copies rows so that whole vectors can be read at their ends. */
static void copy_rows(int64_t rows, int64_t wide, int64_t padded, const float *from, int64_t row,
                      float *to)
{
  for (int64_t i = 0; i < rows; i++) {
    memcpy(to + i * padded, from + i * row, (size_t)wide * sizeof *to);
    memset(to + i * padded + wide, 0, (size_t)(padded - wide) * sizeof *to);
  }
}

/* Writes or adds a query's row of the bias's gradient, and scales the row. */
static void bias_row(const sdpa_op_t *k, const part_t *p, int64_t query, int64_t low, int64_t high,
                     float *row)
{
  float *to = p->dbias + query * k->g.s;
  for (int64_t j = 0; j < k->g.s && !p->add; j++)
    to[j] = 0;
  for (int64_t j = low; j < high; j++) {
    to[j] += row[j];
    row[j] *= k->scale;
  }
}

/* Computes the gradients of the scores of a tile. */
static void find_slopes(const sdpa_op_t *k, const part_t *p, int64_t first, const span_t *s)
{
  const ct_sdpa_t *g = &k->g;
  times_transposed(k, s, g->e, p->dy + first * g->y_row, g->y_row, p->vt, p->dscores);
  for (int64_t i = s->first; i < s->first + s->rows; i++) {
    int64_t t = first + i, low = first_of(k, p, t), high = last_of(k, p, t);
    float *row = p->dscores + i * k->across;
    float mean = k->loops->dot(g->e, p->y + t * g->y_row, p->dy + t * g->y_row);
    k->loops->softmax_bwd(high - low, p->dbias ? 1 : k->scale, p->scores + i * k->across + low,
                          mean, row + low);
    if (p->dbias) bias_row(k, p, t, low, high, row);
    clear_rest(k, low, high, s, row);
  }
}

static void block_backward(const sdpa_op_t *k, const part_t *p, int64_t first, int64_t rows)
{
  const ct_sdpa_t *g = &k->g;
  int64_t q = first * g->q.row;
  for (int64_t i = 0; i * k->step < rows; i++) {
    span_t s = span_of(k, p, first, rows, i);
    p->low[i] = s.low;
    p->high[i] = s.high;
    find_scores(k, p, first, &s);
    find_slopes(k, p, first, &s);
    if (p->dq) times(k, p, &s, p->dscores, p->ks, p->dq + q, g->q.row, g->d);
  }
  copy_rows(rows, g->e, k->ew, p->dy + first * g->y_row, g->y_row, p->gs);
  copy_rows(rows, g->d, k->dw, p->q + q, g->q.row, p->qs);
  if (p->dv) transposed_times(k, p, rows, p->scores, p->gs, k->ew, p->dv, g->v.row, g->e);
  if (p->dk) transposed_times(k, p, rows, p->dscores, p->qs, k->dw, p->dk, g->k.row, g->d);
}

/* Packs the keys and values of a head, of which the last query of `end` meets the most. */
static void pack_keys(const sdpa_op_t *k, part_t *p, int64_t end)
{
  const ct_sdpa_t *g = &k->g;
  p->keys = last_of(k, p, end - 1);
  cpu__gemm_tiled_pack_transposed(k->tiles, g->d, p->keys, p->k, g->k.row, p->kt);
  cpu__gemm_tiled_pack_transposed(k->tiles, g->e, p->keys, p->v, g->v.row, p->vt);
  cpu__gemm_tiled_pack(k->tiles, p->keys, g->d, p->k, g->k.row, p->ks);
}

static void clear_rows(int64_t rows, int64_t wide, float *to, int64_t row)
{
  for (int64_t i = 0; to && i < rows; i++)
    memset(to + i * row, 0, (size_t)wide * sizeof *to);
}

/* Returns 1 if each head of each sample has a bias of its own. */
static int owns_bias(const ct_sdpa_t *g)
{
  return (g->mask_h || g->heads == 1) && (g->mask_n || g->n == 1);
}

/* The heads that share keys and values, one after the other. */
static void group_backward(const sdpa_op_t *k, const ct_op_args_t *a, int64_t i, float *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t group = g->heads / g->kv_heads, n = i / g->kv_heads, kv = i % g->kv_heads;
  for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
    part_t p = part(k, a, n, h, own);
    if (k->biased && slope_of(a, g->mask) && owns_bias(g))
      p.dbias = slope_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
    if (h == kv * group) {
      pack_keys(k, &p, g->t);
      clear_rows(g->s, g->d, p.dk, g->k.row);
      clear_rows(g->s, g->e, p.dv, g->v.row);
    }
    p.keys = last_of(k, &p, g->t - 1);
    for (int64_t first = 0; first < g->t; first += k->rows)
      block_backward(k, &p, first, g->t - first < k->rows ? g->t - first : k->rows);
  }
}

/* Computes some rows of the gradient of one of the biases that samples or heads share: the sum over
 * them, in their order. */
static void shared_bias(const sdpa_op_t *k, const ct_op_args_t *a, int64_t task, float *own)
{
  const ct_sdpa_t *g = &k->g;
  int64_t blocks = (g->t + k->rows - 1) / k->rows, first = task % blocks * k->rows, add = 0;
  int64_t end = first + k->rows < g->t ? first + k->rows : g->t, bias = task / blocks;
  int64_t h0 = g->mask_h ? bias % g->heads : 0,
          n0 = g->mask_n ? bias / (g->mask_h ? g->heads : 1) : 0;
  for (int64_t n = n0; n < (g->mask_n ? n0 + 1 : g->n); n++)
    for (int64_t h = h0; h < (g->mask_h ? h0 + 1 : g->heads); h++) {
      part_t p = part(k, a, n, h, own);
      p.dbias = slope_of(a, g->mask) + n * g->mask_n + h * g->mask_h;
      p.add = (int)add++ > 0;
      pack_keys(k, &p, end);
      for (int64_t i = 0; i * k->step < end - first; i++) {
        span_t s = span_of(k, &p, first, end - first, i);
        find_scores(k, &p, first, &s);
        find_slopes(k, &p, first, &s);
      }
    }
}

static void sdpa_backward(const sdpa_op_t *k, const ct_op_args_t *a)
{
  const ct_sdpa_t *g = &k->g;
  int64_t groups = g->n * g->kv_heads, size = own_size(k);
  int64_t biases = (g->mask_n ? g->n : 1) * (g->mask_h ? g->heads : 1);

#pragma omp parallel for if (groups > 1 && groups * g->t * g->s > 1024) schedule(dynamic)
  for (int64_t i = 0; i < groups; i++)
    group_backward(k, a, i, (float *)a->scratch + omp_get_thread_num() * size);
  if (!k->biased || !slope_of(a, g->mask) || owns_bias(g)) return;
  biases *= (g->t + k->rows - 1) / k->rows;

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

/* Chooses the queries of a tile and of a block: blocks of equal size, of whole tiles. */
static void choose_blocks(sdpa_op_t *k)
{
  int64_t most = BLOCK / k->across, t = k->g.t;
  k->step = k->tiles->rows[2];
  if (most < k->step) most = k->step;
  k->rows = (t + (t + most - 1) / most - 1) / ((t + most - 1) / most);
  k->rows = (k->rows + k->step - 1) / k->step * k->step;
}

static int sdpa_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  sdpa_op_t *k = (sdpa_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t width, threads = op->dev->threads;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->tiles = cpu__tiles(op->dev);
  k->g = ct_sdpa_of(d);
  k->scale = (float)d->u.sdpa.scale;
  k->biased = d->u.sdpa.mask == CT_MASK_BIAS;
  width = k->tiles->width;
  k->across = (k->g.s + width - 1) / width * width + width;
  k->dw = (k->g.d + width - 1) / width * width;
  k->ew = (k->g.e + width - 1) / width * width;
  choose_blocks(k);
  k->parts = 1; /* few heads: also their queries are divided among the threads */
  while (k->g.n * k->g.heads * k->parts < 2 * threads && k->g.t / k->parts >= 8 * k->step)
    k->parts *= 2;
  info->scratch = (size_t)(threads * own_size(k)) * sizeof(float);
  info->algorithm = "products, softmax by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__sdpa = {.size = sizeof(sdpa_op_t),
                                  .bf16 = 1,
                                  .plain = 1,
                                  .stores = cpu__always,
                                  .prepare = sdpa_prepare,
                                  .run = sdpa_run};
