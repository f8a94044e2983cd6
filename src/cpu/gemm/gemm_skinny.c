/* Skinny GEMM: A (at most 16 rows) times a large B, whose transpose is stored in panels of 16
 * columns (cpu__panels()), like the weights in a linear layer's data gradient with a small batch.
 * Packing B would take longer than the GEMM.  So the transposed result C' = B' A' is computed: the
 * panels are the first operand, which is read once without packing.  The few rows of A are packed,
 * and the small result is transposed. */
#include "base/ct_int.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/tile/tile.h"
#include <omp.h>
#include <string.h>

/* Panels of b read in parallel.  More would exceed the streams that the hardware prefetcher
 * follows, with addresses that may fall into the same cache sets. */
enum { TAPS = 4 };
/* Columns of b per tile (its rows), and the software prefetch distance in tiles: the hardware
 * prefetcher is too late. */
enum { COLUMNS = 12, AHEAD = 2 };
/* Floats of the transposed result, which stays in the L2 cache while b streams past. */
enum { RESULT = 1 << 16 };
enum { SQUARE = CPU__PANEL * CPU__PANEL };

typedef struct skinny {
  const cpu__gemm_t *g;
  const cpu__tiles_t *tiles;
} skinny_t;

/* Packs k columns of all rows of A. */
static void pack_rows(const skinny_t *f, int64_t k0, int64_t k, float *to)
{
  const cpu__gemm_t *g = f->g;
  cpu__pack_t pack = {.k = k, .k_step = g->a.col, .k16 = 16 * g->a.col, .lane = g->a.row};
  pack.lanes = (int)g->m;
  f->tiles->pack(&pack, g->a.at + k0 * g->a.col, to);
}

/* Prefetches parts of b.  Always inlined: gcc would remove a call to a function that only
 * prefetches. */
static inline __attribute__((always_inline)) void fetch(const cpu__tile_t *t, const float *b,
                                                        int64_t columns)
{
  for (int64_t i = 0; i < t->taps; i++)
    for (int64_t j = 0; j < columns; j++)
      __builtin_prefetch(b + t->a_at[i] + j * t->a_row);
}

/* Adds the product of `taps` blocks of k, from k0 on, for the columns n0 to n0 + n. */
static void add_taps(const skinny_t *f, int64_t k0, int64_t k, int64_t taps, int64_t n0, int64_t n,
                     const float *rows, float *result)
{
  const cpu__gemm_t *g = f->g;
  int64_t a_at[TAPS], b_at[TAPS];
  for (int64_t i = 0; i < taps; i++) {
    a_at[i] = i * g->b.row16;
    b_at[i] = i * SQUARE;
  }
  int width = f->tiles->width;
  cpu__tile_t t = {.taps = taps, .a_at = a_at, .b_at = b_at, .k = k, .lanes = width, .add = k0 > 0};
  t.a_row = g->b.col;
  t.a_k = 1;
  t.b_k = t.c_row = CPU__PANEL;
  t.b_vec = t.c_vec = width;
  const float *b = g->b.at + k0 / CPU__PANEL * g->b.row16 + n0 * g->b.col;
  int vecs = (int)(g->m + width - 1) / width, most = (int)ct_least(f->tiles->rows[vecs], COLUMNS);
  for (int64_t i = 0; i < n; i += most) {
    fetch(&t, b + (i + AHEAD * most) * t.a_row, most);
    f->tiles->run[vecs][ct_least(most, n - i)](&t, b + i * t.a_row, rows, result + i * CPU__PANEL);
  }
}

/* Transposes the result for n columns from n0 on into c. */
static void put_result(const skinny_t *f, int64_t n0, int64_t n, const float *result)
{
  const cpu__gemm_t *g = f->g;
  float square[SQUARE];
  cpu__pack_t pack = {.k = g->m, .k_step = 1, .lane = CPU__PANEL};
  for (int64_t j = 0; j < n; j += CPU__PANEL) {
    pack.lanes = (int)ct_least(n - j, CPU__PANEL);
    f->tiles->pack(&pack, result + j * CPU__PANEL, square);
    for (int64_t i = 0; i < g->m; i++)
      memcpy(g->c.at + i * g->c.row + n0 + j, square + i * CPU__PANEL,
             (size_t)pack.lanes * sizeof *square);
  }
}

static void gemm_columns(const skinny_t *f, int64_t n0, int64_t n, float *workspace)
{
  float *rows = workspace, *result = workspace + TAPS * SQUARE;
  for (int64_t k0 = 0; k0 < f->g->k;) {
    int64_t left = f->g->k - k0, k = ct_least(left, CPU__PANEL), taps = ct_least(left / k, TAPS);
    pack_rows(f, k0, k * taps, rows);
    add_taps(f, k0, k, taps, n0, n, rows, result);
    k0 += k * taps;
  }
  put_result(f, n0, n, result);
}

/* Returns 0 for a small b: cpu__gemm_blocked() is then faster, since packing costs less than the
 * vector lanes that a skinny GEMM leaves unused. */
int cpu__gemm_is_skinny(const cpu__gemm_t *g)
{
  int across = g->b.row == 1 && g->b.row16 != 16 && g->c.col16 == 16;
  int plain = !g->add && !g->bias && !g->relu && !g->sums;
  return across && plain && g->m <= CPU__PANEL && g->m * g->n * g->k > 1 << 25;
}

void cpu__gemm_skinny(const ct_dev_t *dev, const cpu__gemm_t *g)
{
  int parts = omp_in_parallel() ? 1 : dev->threads;
  skinny_t f = {.g = g, .tiles = cpu__tiles(dev)};
  int64_t blocks = ct_div_up(g->n, CPU__PANEL);
  size_t workspace = cpu__gemm_workspace() / sizeof(float);
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int i = 0; i < parts; i++) {
    int64_t first = blocks * i / parts * CPU__PANEL, last = blocks * (i + 1) / parts * CPU__PANEL;
    last = ct_least(last, g->n);
    for (int64_t n; first < last; first += n) {
      n = ct_least(RESULT / CPU__PANEL, last - first);
      gemm_columns(&f, first, n, dev->packing + (size_t)omp_get_thread_num() * workspace);
    }
  }
}
