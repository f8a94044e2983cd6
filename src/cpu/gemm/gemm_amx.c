/* GEMM of bf16 on AMX: packs the operands for some of k, then computes blocks of C, each on a
 * thread.  A block of A stays in the L2 cache while B streams past; B's 32 columns stay in the L1
 * cache while A's rows stream past. */
#include "cpu/gemm/gemm_amx.h"
#include "cpu/tile/amx.h"
#include "cpu/tile/bf16_dot.h"
#include "base/ct_int.h"
#include <omp.h>
#include <string.h>

cpu__amx_gemm_t cpu__amx_dense(int pass, int64_t rows, int64_t in, int64_t out)
{
  if (pass == CT_FWD)
    return (cpu__amx_gemm_t){.m = rows,
                             .n = out,
                             .k = in,
                             .a.ld = in,
                             .b = {.ld = in, .floats = 1, .turned = 1},
                             .c_row = out};
  if (pass == CT_BWD_DATA)
    return (cpu__amx_gemm_t){
        .m = rows, .n = in, .k = out, .a.ld = out, .b = {.ld = in, .floats = 1}, .c_row = in};
  return (cpu__amx_gemm_t){.m = out,
                           .n = in,
                           .k = rows,
                           .a = {.ld = out, .turned = 1},
                           .b.ld = in,
                           .c_row = in,
                           .c_floats = 1};
}

#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#  endif
#  define CPU__VW 16
#  define CPU__BF16
#  include "cpu/kern/vec.h"

enum {
  T = CPU__AMX,
  ROWS = 128,       /* of a block of C */
  COLUMNS = 128,    /* of a block of C */
  C_ROW = 128 + 16, /* stride of the rows of a block: not a power of two */
  DEPTH = 512,      /* k of 32 columns of B that stay in the L1 cache */
  SEGMENT = 256     /* k that a task of packing B does */
};

/* A GEMM in work. */
typedef struct gemm {
  const ct_dev_t *dev;
  const cpu__amx_gemm_t *g;
  int packs;        /* 1: all of A is packed; 0: only its last rows, which fill no tile */
  int64_t chunk;    /* k of a chunk */
  int64_t first, k; /* the chunk in work */
  int64_t a_row;    /* stride of the packed rows of A */
  int64_t panel;    /* elements of 16 packed columns of B */
  int64_t own_at;   /* offset of the blocks of C in the workspace, in elements of bf16 */
  uint16_t *a, *b;  /* packed */
  float *own;       /* blocks of C, one for each thread */
} gemm_t;

/* scratch: NULL, if only sizes are asked for. */
static gemm_t gemm_of(const ct_dev_t *dev, const cpu__amx_gemm_t *g, char *scratch)
{
  gemm_t w = {.dev = dev, .g = g, .packs = g->a.turned || (g->k % CPU__AMX_K && !g->a.padded)};
  w.chunk = g->c_floats ? ct_least(g->k, CPU__AMX_CHUNK) : g->k;
  int64_t k = ct_round_up(w.chunk, CPU__AMX_K);
  w.a_row = k % 512 ? k : k + CPU__AMX_K;
  w.panel = k * T;
  int64_t of_b = g->packed ? 0 : ct_round_up(g->n, T) * k;
  w.own_at = of_b + (w.packs ? ct_round_up(g->m, CPU__AMX_K) : T) * w.a_row;
  if (!scratch) return w;
  uint16_t *at = (uint16_t *)(void *)scratch;
  w.b = g->packed ? (uint16_t *)(uintptr_t)g->packed : at;
  w.a = at + of_b;
  w.own = (float *)(void *)(at + w.own_at);
  return w;
}

size_t cpu__amx_gemm_packed(const cpu__amx_gemm_t *g)
{
  return (size_t)(ct_round_up(g->n, T) * ct_round_up(g->k, CPU__AMX_K)) * sizeof(uint16_t);
}

size_t cpu__amx_gemm_scratch(const cpu__amx_gemm_t *g, int threads)
{
  gemm_t w = gemm_of(NULL, g, NULL);
  return (size_t)w.own_at * sizeof(uint16_t) + (size_t)threads * ROWS * C_ROW * sizeof(float);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Packs COLUMNS columns of B, whose rows in memory are its rows. */
static void pack_rows(const gemm_t *w, int64_t column, int64_t from, int64_t to)
{
  const cpu__amx_side_t *b = &w->g->b;
  int64_t n = ct_least(COLUMNS, w->g->n - column);
  for (int64_t p = from; p < to; p += 2) {
    uint32_t *out = (uint32_t *)(void *)(w->b + column / T * w->panel + p * T);
    int64_t at = (w->first + p) * b->ld + column;
    if (p >= w->k)
      for (int64_t j = 0; j < n; j += T)
        memset(out + j / T * w->panel / 2, 0, T * sizeof *out);
    else if (b->floats)
      cpu__interleave_floats(n, (const float *)b->at + at,
                             p + 1 < w->k ? (const float *)b->at + at + b->ld : NULL, out,
                             w->panel / 2);
    else
      cpu__interleave_rows(n, (const uint16_t *)b->at + at,
                           p + 1 < w->k ? (const uint16_t *)b->at + at + b->ld : NULL, out,
                           w->panel / 2);
  }
}

/* Packs COLUMNS columns of B, which are its rows in memory. */
static void pack_columns(const gemm_t *w, int64_t column, int64_t from, int64_t to)
{
  uint16_t rows[T * SEGMENT];
  const cpu__amx_side_t *b = &w->g->b;
  int64_t width = to - from, valid = ct_least(w->k, to) - from;
  for (int64_t end = ct_least(column + COLUMNS, w->g->n); column < end; column += T) {
    int64_t n = ct_least(T, end - column);
    for (int64_t j = 0; j < n; j++) {
      int64_t at = (column + j) * b->ld + w->first + from;
      for (int64_t i = 0; i < valid && b->floats; i += CPU__VW) {
        int lanes = (int)ct_least(CPU__VW, valid - i);
        elems_t e = elems_of(load((const float *)b->at + at + i, lanes));
        *(elems_mem_t *)(rows + j * width + i) = e;
      }
      if (!b->floats) memcpy(rows + j * width, (const uint16_t *)b->at + at, (size_t)valid * 2);
      memset(rows + j * width + valid, 0, (size_t)(width - valid) * 2);
    }
    cpu__bf16_dot_tiles(w->dev)->transpose(
        n, width / 2, (const float *)(const void *)rows, width / 2,
        (float *)(void *)(w->b + column / T * w->panel + from * T), T);
  }
}

static void pack_b(const gemm_t *w)
{
  int64_t k = ct_round_up(w->k, CPU__AMX_K), parts = ct_div_up(k, SEGMENT);
  int64_t tasks = ct_div_up(w->g->n, COLUMNS) * parts;
#  pragma omp for schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    int64_t from = i % parts * SEGMENT, column = i / parts * COLUMNS;
    (w->g->b.turned ? pack_columns : pack_rows)(w, column, from, ct_least(k, from + SEGMENT));
  }
}

typedef double doubles_t __attribute__((vector_size(CPU__VW * 8)));

/* Adds up a packed row, which ends with zeros. */
static float sum_row(const uint16_t *row, int64_t end, float before)
{
  doubles_t even = {0}, odd = {0};
  double sum = before;
  for (int64_t k = 0; k < end; k += CPU__AMX_K) {
    even += __builtin_convertvector(get(row, k, CPU__VW), doubles_t);
    odd += __builtin_convertvector(get(row, k + CPU__VW, CPU__VW), doubles_t);
  }
  even += odd;
  for (int i = 0; i < CPU__VW; i++)
    sum += even[i];
  return (float)sum;
}

/* Packs CPU__AMX_K rows of A, whose rows in memory are its columns. */
static void turn_a(const gemm_t *w, int64_t row)
{
  int32_t table[CPU__AMX_CHUNK];
  const cpu__amx_side_t *a = &w->g->a;
  int64_t end = ct_round_up(w->k, CPU__AMX_K);
  for (int64_t k = 0; k < end; k += CPU__AMX_CHUNK) {
    cpu__gather_t g = {(const uint16_t *)a->at + (w->first + k) * a->ld, a->ld, table,
                       ct_least(CPU__AMX_CHUNK, end - k)};
    for (int64_t i = 0; i < g.k; i++)
      table[i] = k + i < w->k ? (int32_t)i : -1;
    cpu__amx_pack_a(&g, row, w->a + row * w->a_row + k, w->a_row);
  }
  int64_t last = ct_least(row + CPU__AMX_K, w->g->m);
  for (int64_t i = row; w->g->sums && i < last; i++)
    w->g->sums[i] =
        sum_row(w->a + i * w->a_row, end, w->first > 0 || w->g->add ? w->g->sums[i] : 0);
}

/* Copies T rows of A from `row` on; missing rows and k are zeros. */
static void copy_a(const gemm_t *w, int64_t row, uint16_t *to)
{
  const cpu__amx_side_t *a = &w->g->a;
  int64_t k = ct_round_up(w->k, CPU__AMX_K);
  for (int64_t i = row; i < row + T; i++, to += w->a_row) {
    int64_t valid = i < w->g->m ? w->k : 0;
    if (valid) memcpy(to, (const uint16_t *)a->at + i * a->ld + w->first, (size_t)valid * 2);
    memset(to + valid, 0, (size_t)(k - valid) * 2);
  }
}

static void pack_a(const gemm_t *w)
{
  int64_t m = w->g->m, step = w->g->a.turned ? CPU__AMX_K : T;
#  pragma omp for schedule(static)
  for (int64_t i = 0; i < (w->packs ? m : m % T ? 1 : 0); i += step)
    if (!w->packs)
      copy_a(w, m - m % T, w->a);
    else if (w->g->a.turned)
      turn_a(w, i);
    else
      copy_a(w, i, w->a + i * w->a_row);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Computes the products of DEPTH of k, at `at`, for a strip of up to 2 tiles of columns. */
static void strip(const gemm_t *w, int64_t row, int64_t rows, int64_t column, int64_t columns,
                  int64_t at, float *c, int64_t c_row, int add)
{
  static const int64_t start[1] = {0};
  const cpu__amx_gemm_t *g = w->g;
  int64_t whole = w->packs ? ct_round_up(g->m, T) : g->m / T * T;
  cpu__amx_t t = {.taps = 1,
                  .a_at = start,
                  .b_at = start,
                  .steps = ct_div_up(ct_least(DEPTH, w->k - at), CPU__AMX_K),
                  .a_row = w->packs ? w->a_row : g->a.ld,
                  .b_tile = w->panel,
                  .c_row = c_row,
                  .c_down = T * c_row,
                  .c_right = T,
                  .right = columns > T ? 2 : 1,
                  .add = add};
  const uint16_t *b = w->b + column / T * w->panel + at * T;
  const uint16_t *a = w->packs ? w->a : (const uint16_t *)g->a.at + w->first;
  t.a_tile = T * t.a_row;
  for (int64_t i = row; i < row + rows; i += t.down * T) {
    const uint16_t *from = a + i * t.a_row + at;
    t.down = i + 2 * T <= ct_least(whole, ct_round_up(row + rows, T)) ? 2 : 1;
    if (i >= whole) {
      t.a_row = w->a_row;
      from = w->a + at;
    }
    cpu__amx_run(&t, from, b, c + (i - row) * c_row);
  }
}

/* Writes a block from the thread's sums to C. */
static void finish(const gemm_t *w, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   const float *sums, int add)
{
  const cpu__amx_gemm_t *g = w->g;
  for (int64_t i = 0; i < rows; i++, sums += C_ROW)
    for (int64_t j = 0; j < columns; j += CPU__VW) {
      int n = (int)ct_least(CPU__VW, columns - j);
      int64_t to = (row + i) * g->c_row + column + j;
      vec_t v = *(const vec_mem_t *)(sums + j);
      if (g->bias) v += load(g->bias + column + j, n);
      if (add) v += load((const float *)g->c + to, n);
      if (g->relu) v = relu_of(v);
      if (g->c_floats)
        store((float *)g->c + to, v, n);
      else
        put(g->c, to, v, n, 0);
    }
}

static void block(const gemm_t *w, int64_t row, int64_t column, float *own)
{
  const cpu__amx_gemm_t *g = w->g;
  int64_t rows = ct_least(ROWS, g->m - row), columns = ct_least(COLUMNS, g->n - column);
  int direct = g->c_floats && !g->bias && !g->relu && rows % T == 0 && columns % T == 0;
  int add = g->add || w->first > 0;
  float *c = direct ? (float *)g->c + row * g->c_row + column : own;
  int64_t c_row = direct ? g->c_row : C_ROW;
  for (int64_t at = 0; at < w->k; at += DEPTH)
    for (int64_t j = 0; j < columns; j += 2 * T)
      strip(w, row, rows, column + j, columns - j, at, c + j, c_row, at > 0 || (direct && add));
  if (!direct) finish(w, row, rows, column, columns, own, add);
}

/* Computes all blocks for the chunk in work. */
static void blocks(const gemm_t *w)
{
  int64_t down = ct_div_up(w->g->m, ROWS), across = ct_div_up(w->g->n, COLUMNS);
  float *own = w->own + omp_get_thread_num() * ROWS * C_ROW;
#  pragma omp for schedule(static)
  for (int64_t i = 0; i < down * across; i++)
    block(w, i / across * ROWS, i % across * COLUMNS, own);
}

void cpu__amx_gemm_pack(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *packed)
{
  gemm_t w = gemm_of(dev, g, packed);
  w.k = g->k;
#  pragma omp parallel if (!omp_in_parallel())
  pack_b(&w);
}

void cpu__amx_gemm(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *scratch)
{
  gemm_t all = gemm_of(dev, g, scratch);
#  pragma omp parallel if (!omp_in_parallel())
  {
    gemm_t w = all;
    cpu__amx_begin();
    for (w.first = 0; w.first < g->k; w.first += w.chunk) {
      w.k = ct_least(w.chunk, g->k - w.first);
      if (!g->packed) pack_b(&w);
      pack_a(&w);
      blocks(&w);
    }
    cpu__amx_end();
  }
}
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#else
/* Stubs: there is no AMX on this architecture. */
void cpu__amx_gemm_pack(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *packed)
{
  (void)dev, (void)g, (void)packed;
}

size_t cpu__amx_gemm_packed(const cpu__amx_gemm_t *g)
{
  (void)g;
  return 0;
}

size_t cpu__amx_gemm_scratch(const cpu__amx_gemm_t *g, int threads)
{
  (void)g, (void)threads;
  return 0;
}

void cpu__amx_gemm(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *scratch)
{
  (void)dev, (void)g, (void)scratch;
}
#endif
