/* GEMM: cache blocking, packing, and distribution over threads.  The blocking is that of Goto and
 * van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008). */
#include "base/ct_int.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/tile/tile.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* K_BLOCK x N_HOT of b and the packed rows fit the L2 cache of 1 MB; all columns packed at a time
 * fit the L3 cache.  A shorter K_BLOCK, with which a tile's rows would fit the L1 cache, is slower,
 * because c is loaded and stored more often. */
enum { K_BLOCK = 512, N_HOT = 240, N_BLOCK = 768, M_BLOCK = 8 * CPU__PANEL };
/* Number of k that are packed at a time for all panels in turn, if the lanes of a panel (its
 * columns) are contiguous: cache lines of a row are then used completely. */
enum { K_CHUNK = 16 };
enum { A_FLOATS = M_BLOCK * K_BLOCK, B_FLOATS = N_BLOCK * K_BLOCK };

/* A GEMM with fewer multiply-adds runs on one thread: waking other threads would take longer. */
#define ALONE_BELOW 2.5e5

size_t cpu__gemm_workspace(void)
{
  return (A_FLOATS + B_FLOATS) * sizeof(float);
}

/* Parameters of a GEMM, the same for all its parts. */
typedef struct plan {
  const cpu__gemm_t *g;
  const cpu__tiles_t *tiles;
  int64_t k_block;
  int vecs, rows; /* maximum size of a tile */
  int pack_a, pack_b, whole;
  int stream; /* 1: non-temporal stores */
} plan_t;

/* A block of the GEMM in progress, with the sources of a and b. */
typedef struct block {
  int64_t k0, k;
  int64_t n0, n; /* n0: first packed column of b */
  cpu__matrix_t b;
  float *a_packed;
} block_t;

typedef struct part {
  int64_t m0, m, n0, n;
} part_t;

static int is_panels(const cpu__matrix_t *m)
{
  return m->col == 1 && m->col16 != 16;
}

/* ---- planning ---- */

/* Returns the cycles of a tile per k: two multiply-adds and two loads per cycle, or the latency of
 * a multiply-add; plus the loads of b from the L2 cache, because of which tall tiles are better. */
static double tile_cycles(int rows, int vecs)
{
  double busy = fmax(rows * vecs, rows + vecs);
  return fmax(busy / 2, 4) + 0.5 + 0.25 * vecs;
}

static double row_of_tiles(int64_t rows, int64_t vectors, int vecs)
{
  double cycles = (double)(vectors / vecs) * tile_cycles((int)rows, vecs);
  int rest = (int)(vectors % vecs);
  return rest ? cycles + tile_cycles((int)rows, rest) : cycles;
}

/* Chooses the fastest tile shape for m x n. */
static void choose_tile(plan_t *p)
{
  const cpu__gemm_t *g = p->g;
  double fastest = INFINITY;
  int64_t vectors = ct_div_up(g->n, p->tiles->width);
  int most = p->tiles->width == CPU__PANEL ? CPU__TILE_VECS : CPU__PANEL / p->tiles->width;
  for (int vecs = 1; vecs <= most; vecs++) {
    int64_t rows = ct_least(p->tiles->rows[vecs], CPU__PANEL), tiles = ct_div_up(g->m, rows);
    double cycles = (double)tiles * row_of_tiles(ct_div_up(g->m, tiles), vectors, vecs);
    if (cycles > fastest) continue;
    fastest = cycles;
    p->vecs = vecs;
    p->rows = (int)rows;
  }
}

/* Returns 1 if 16 columns of a are not followed by the next ones. */
static int is_apart(const cpu__matrix_t *a)
{
  return a->col16 != 16 * a->col;
}

/* Returns 1 if a should be packed: rows whose stride is a multiple of a page fall into the same L1
 * cache sets; a large stride along k touches many pages.  With few columns packing takes as long
 * as the products, but without it each tile waits for the cache lines of a long stride. */
static int is_bad_a(const cpu__gemm_t *g, int rows)
{
  if (is_apart(&g->a) && g->k % CPU__PANEL) return 1;
  if (g->a.row == 1 && g->n > 96) return g->k > 32 && g->a.col != 1;
  if (g->a.row == 1) return g->k > 512 && g->n * g->a.col >= 6144;
  return g->a.row % 1024 == 0 && g->n > 96 && g->k > 64 && ct_least(g->m, rows) > 6;
}

static plan_t make_plan(const ct_dev_t *dev, const cpu__gemm_t *g)
{
  plan_t p = {.g = g, .tiles = cpu__tiles(dev), .whole = is_panels(&g->c)};
  int64_t blocks = ct_div_up(g->k, K_BLOCK);
  p.k_block = blocks > 1 ? ct_div_up(ct_div_up(g->k, blocks), 16) * 16 : g->k;
  choose_tile(&p);
  p.stream = g->streams && p.whole && blocks <= 1 && !g->add && (uintptr_t)g->c.at % 64 == 0;
  p.pack_a = is_bad_a(g, p.rows);
  int readable = is_panels(&g->b) || (g->b.col == 1 && g->n % CPU__PANEL == 0 && g->m <= 56);
  p.pack_b = !readable || g->sums;
  return p;
}

/* ---- one part of the result, on one thread ---- */

/* Returns the bias of a tile, padded to whole vectors. */
static const float *bias_of(const plan_t *p, int64_t n0, int64_t vecs, float copy[])
{
  const float *bias = p->g->bias;
  int64_t wanted = vecs * p->tiles->width, there = p->g->n - n0;
  if (!bias || there >= wanted) return bias ? bias + n0 : NULL;
  memset(copy, 0, (size_t)wanted * sizeof *copy);
  if (there > 0) memcpy(copy, bias + n0, (size_t)there * sizeof *copy);
  return copy;
}

static int64_t column(const cpu__matrix_t *m, int64_t j)
{
  return j / CPU__PANEL * m->col16 + j % CPU__PANEL;
}

/* Multiplies `rows` rows of a, starting at `a`, by all columns from n0 on. */
static void tiles_of_rows(const plan_t *p, const block_t *b, cpu__tile_t *t, const float *a,
                          int rows, int64_t m0, int64_t n0, int64_t n)
{
  const cpu__gemm_t *g = p->g;
  int width = p->tiles->width;
  float bias[CPU__TILE_VECS * CPU__PANEL];
  int last = b->k0 + b->k == g->k;
  if (p->whole) n = ct_div_up(n, CPU__PANEL) * CPU__PANEL;
  for (int64_t j = 0, wide; j < n; j += wide) {
    int64_t vecs = ct_least(p->vecs, ct_div_up(n - j, width)), full = vecs * width;
    wide = ct_least(n - j, full);
    t->lanes = p->whole ? width : (int)(width - (full - wide));
    t->bias = last ? bias_of(p, n0 + j, vecs, bias) : NULL;
    t->relu = last && g->relu;
    p->tiles->run[vecs][rows](t, a, b->b.at + column(&b->b, n0 + j - b->n0),
                              g->c.at + m0 * g->c.row + column(&g->c, n0 + j));
    t->fetch = NULL; /* the first tile has fetched all */
  }
}

static const float *element_of_a(const cpu__gemm_t *g, int64_t i, int64_t k)
{
  return g->a.at + i * g->a.row + k / CPU__PANEL * g->a.col16 + k % CPU__PANEL * g->a.col;
}

/* Sets the taps of the tiles of a block: one, or one for each 16 of k. */
static void set_taps(const plan_t *p, const block_t *b, cpu__tile_t *t, int64_t a_at[],
                     int64_t b_at[])
{
  t->a_at = a_at;
  t->b_at = b_at;
  t->taps = 1;
  t->k = b->k;
  if (is_apart(&p->g->a) && !p->pack_a) {
    t->taps = b->k / CPU__PANEL;
    t->k = CPU__PANEL;
  }
  for (int64_t i = 0; i < t->taps; i++) {
    a_at[i] = i * p->g->a.col16;
    b_at[i] = i * b->b.row16;
  }
}

/* Multiplies some rows of a by the columns n0 to n0 + n, which stay in the L2 cache. */
static void rows_by_columns(const plan_t *p, const block_t *b, int64_t m0, int64_t m, int64_t n0,
                            int64_t n)
{
  int64_t a_at[K_BLOCK / CPU__PANEL + 1], b_at[K_BLOCK / CPU__PANEL + 1];
  const cpu__gemm_t *g = p->g;
  int64_t count = ct_div_up(m, p->rows), step = p->tiles->width == CPU__PANEL ? b->b.col16 : 8;
  cpu__tile_t t = {.add = b->k0 > 0 || g->add};
  set_taps(p, b, &t, a_at, b_at);
  t.stream = p->stream;
  t.a_row = p->pack_a ? 1 : g->a.row;
  t.a_k = p->pack_a ? CPU__PANEL : g->a.col;
  t.b_k = b->b.row;
  t.b_vec = step;
  t.c_row = g->c.row;
  t.c_vec = p->tiles->width == CPU__PANEL ? g->c.col16 : 8;
  for (int64_t i = 0; i < count; i++) {
    int64_t first = m * i / count, rows = m * (i + 1) / count - first;
    const float *a =
        p->pack_a ? b->a_packed + i * b->k * CPU__PANEL : element_of_a(g, m0 + first, b->k0);
    if (t.a_k == 1 && t.taps == 1 && m0 + first + rows < g->m) t.fetch = a + rows * t.a_row;
    tiles_of_rows(p, b, &t, a, (int)rows, m0 + first, n0, n);
  }
}

/* Prefetches columns m0 to m0 + m of some rows of a transposed a: few bytes in each of many pages,
 * which hardware prefetchers do not follow.  Always inlined: gcc would remove a call to a function
 * that only prefetches. */
static inline __attribute__((always_inline)) void fetch(const cpu__gemm_t *g, int64_t k0, int64_t k,
                                                        int64_t m0, int64_t m)
{
  for (int64_t i = k0; i < ct_least(k0 + k, g->k); i++)
    for (int64_t j = 0; j < m; j += 16)
      __builtin_prefetch(g->a.at + i * g->a.col + m0 + j, 0, 2);
}

static void pack_a(const plan_t *p, const block_t *b, int64_t m0, int64_t m)
{
  const cpu__gemm_t *g = p->g;
  int64_t count = ct_div_up(m, p->rows);
  cpu__pack_t pack = {.k_step = g->a.col, .k16 = g->a.col16, .lane = g->a.row};
  int64_t chunk = g->a.row == 1 ? K_CHUNK : b->k;
  for (int64_t k = 0; k < b->k; k += chunk) {
    if (g->a.row == 1) fetch(g, b->k0 + k + chunk, chunk, m0, m);
    for (int64_t i = 0; i < count; i++) {
      int64_t first = m * i / count;
      pack.lanes = (int)(m * (i + 1) / count - first);
      pack.k = ct_least(chunk, b->k - k);
      p->tiles->pack(&pack, element_of_a(g, m0 + first, b->k0 + k),
                     b->a_packed + (i * b->k + k) * CPU__PANEL);
    }
  }
}

/* Packs a chunk of one panel of b, and adds it to the column sums. */
static void pack_panel(const plan_t *p, int64_t k0, int64_t k, int64_t n0, int sum, float *to)
{
  const cpu__gemm_t *g = p->g;
  int lanes = (int)ct_least(g->n - n0, CPU__PANEL);
  float sums[CPU__PANEL] = {0};
  cpu__pack_t pack = {.k = k, .k_step = g->b.row, .k16 = g->b.row16, .lane = g->b.col};
  pack.lanes = lanes;
  if (sum && k0 > 0) memcpy(sums, g->sums + n0, (size_t)lanes * sizeof *sums);
  if (sum) pack.sums = sums;
  p->tiles->pack(&pack, g->b.at + k0 / 16 * g->b.row16 + n0 / 16 * g->b.col16, to);
  if (sum) memcpy(g->sums + n0, sums, (size_t)lanes * sizeof *sums);
}

/* Packs rows k0 to k0 + k of b, columns n0 to n0 + n. */
static void pack_b(const plan_t *p, int64_t k0, int64_t k, int64_t n0, int64_t n, int sum,
                   float *to)
{
  int64_t done = 0, chunk = p->g->b.col == 1 ? K_CHUNK : k;
  do {
    int64_t count = ct_least(chunk, k - done);
    for (int64_t j = 0; j < n; j += CPU__PANEL)
      pack_panel(p, k0 + done, count, n0 + j, sum, to + j * k + done * CPU__PANEL);
    done += chunk;
  } while (done < k);
}

static void find_b(const plan_t *p, block_t *b, const part_t *part, float *workspace)
{
  const cpu__gemm_t *g = p->g;
  if (!p->pack_b) {
    b->b = g->b;
    b->b.at += b->k0 / 16 * g->b.row16;
    b->n0 = 0;
    return;
  }
  pack_b(p, b->k0, b->k, b->n0, b->n, g->sums && part->m0 == 0, workspace);
  b->b = cpu__panels(workspace, b->k);
}

static void gemm_block(const plan_t *p, block_t b, const part_t *part, float *workspace)
{
  int64_t whole_tiles = CPU__TILE_VECS * CPU__PANEL, parts = ct_div_up(b.n, N_HOT);
  int64_t first = b.n0, hot = ct_div_up(ct_div_up(b.n, parts), whole_tiles) * whole_tiles;
  int64_t rows = M_BLOCK / CPU__PANEL * p->rows;
  b.a_packed = workspace + B_FLOATS;
  find_b(p, &b, part, workspace);
  for (int64_t i = 0; i < part->m; i += rows) {
    int64_t m0 = part->m0 + i, m = ct_least(rows, part->m - i);
    if (p->pack_a) pack_a(p, &b, m0, m);
    for (int64_t j = 0; j < b.n; j += hot)
      rows_by_columns(p, &b, m0, m, first + j, ct_least(hot, b.n - j));
  }
}

static void gemm_part(const plan_t *p, part_t part, float *workspace)
{
  for (int64_t j = 0; j < part.n; j += N_BLOCK) {
    int64_t k0 = 0;
    do {
      block_t b = {.k0 = k0, .k = ct_least(p->k_block, p->g->k - k0)};
      b.n0 = part.n0 + j;
      b.n = ct_least(N_BLOCK, part.n - j);
      gemm_block(p, b, &part, workspace);
      k0 += p->k_block;
    } while (k0 < p->g->k);
  }
  if (p->stream) cpu__tile_fence();
}

/* ---- the whole GEMM ---- */

/* Chooses a grid of threads along m and n that balances their work. */
static void choose_grid(const plan_t *p, int threads, int *along_m, int *along_n)
{
  int64_t tiles = ct_div_up(p->g->m, p->rows), panels = ct_div_up(p->g->n, CPU__PANEL);
  double least_work = INFINITY;
  for (int m = 1; m <= threads; m++) {
    int n = threads / m;
    double rows = (double)ct_div_up(tiles, m), columns = (double)ct_div_up(panels, n);
    double work = rows * columns + 0.4 * columns * p->pack_b + 0.4 * rows * p->pack_a;
    if (work >= least_work) continue;
    least_work = work;
    *along_m = m;
    *along_n = n;
  }
}

static part_t part_of(const plan_t *p, int i, int along_m, int along_n)
{
  const cpu__gemm_t *g = p->g;
  int64_t tiles = ct_div_up(g->m, p->rows), panels = ct_div_up(g->n, CPU__PANEL);
  int row = i / along_n, col = i % along_n;
  part_t part;
  part.m0 = ct_least(g->m, tiles * row / along_m * p->rows);
  part.m = ct_least(g->m, tiles * (row + 1) / along_m * p->rows) - part.m0;
  part.n0 = ct_least(g->n, panels * col / along_n * CPU__PANEL);
  part.n = ct_least(g->n, panels * (col + 1) / along_n * CPU__PANEL) - part.n0;
  return part;
}

static float *workspace_of(const ct_dev_t *dev)
{
  return dev->packing + (size_t)omp_get_thread_num() * (A_FLOATS + B_FLOATS);
}

void cpu__gemm_blocked(const ct_dev_t *dev, const cpu__gemm_t *g)
{
  if (g->m == 0 || g->n == 0) return;
  plan_t p = make_plan(dev, g);
  double work = (double)g->m * (double)g->n * (double)g->k;
  int along_m = 1, along_n = 1;
  if (!omp_in_parallel() && dev->threads > 1 && work > ALONE_BELOW)
    choose_grid(&p, dev->threads, &along_m, &along_n);
  int parts = along_m * along_n;
  if (parts == 1) {
    gemm_part(&p, (part_t){0, g->m, 0, g->n}, workspace_of(dev));
    return;
  }
#pragma omp parallel for schedule(static)
  for (int i = 0; i < parts; i++)
    gemm_part(&p, part_of(&p, i, along_m, along_n), workspace_of(dev));
}
