/** \file tile/tile_body.h  The micro-kernels for one instruction set.  Module-internal.
 *
 * The including file enables the instruction set and defines: WIDTH, the floats of a vector; REG,
 * the floats of a register; SUMS, the vectors of accumulators that fit the registers beside a row
 * of B and a broadcast factor; TILES, the name of the table.  It may define ADD_PRODUCT(sum,
 * factor, vector), a multiply-add of a broadcast scalar and a vector, if the elements are not
 * floats.
 *
 * `const int` parameters are constants after inlining, so that accumulators are unrolled into
 * registers. */
#include "cpu/tile/tile.h"
#ifdef __SSE2__
#  include <immintrin.h>
#endif

/* Checks in thousands of unrolled loads would take a compiler minutes.  Guard pages and NaNs in
 * tests/conform detect accesses outside the panels. */
#ifdef __clang__
#  pragma clang attribute push(__attribute__((no_sanitize("address", "undefined"))), \
                               apply_to = function)
#endif

#define LOOP static inline __attribute__((always_inline))
/* Loops over accumulators must be unrolled: else the compiler does not keep the accumulators in
 * registers. */
#define UNROLLED _Pragma("GCC unroll 28")

/* Registers per vector. */
#define PARTS (WIDTH / REG)

typedef float vec_t __attribute__((vector_size(REG * 4)));
typedef int32_t mask_t __attribute__((vector_size(REG * 4)));
typedef vec_t vec_mem_t __attribute__((aligned(4), may_alias));

/* Loads the first n floats; the other lanes are 0. */
LOOP vec_t some(const float *p, int n)
{
#if REG == 16
  return (vec_t)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif REG == 8
  mask_t m = (mask_t){0, 1, 2, 3, 4, 5, 6, 7} < n;
  return (vec_t)_mm256_maskload_ps(p, (__m256i)m);
#else
  vec_t v = {0};
  UNROLLED
  for (int j = 0; j < REG; j++)
    if (j < n) v[j] = p[j];
  return v;
#endif
}

LOOP void put_some(float *p, vec_t v, int n)
{
#if REG == 16
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif REG == 8
  mask_t m = (mask_t){0, 1, 2, 3, 4, 5, 6, 7} < n;
  _mm256_maskstore_ps(p, (__m256i)m, (__m256)v);
#else
  UNROLLED
  for (int j = 0; j < REG; j++)
    if (j < n) p[j] = v[j];
#endif
}

/* Returns how many of n floats belong to register v. */
LOOP int in_register(int n, int v)
{
  n -= v * REG;
  return n > REG ? REG : n < 0 ? 0 : n;
}

#ifndef MUL_ADD
#  define MUL_ADD(sum, factor, vector) ((sum) + (factor) * (vector))
#endif

/* Accumulates the product of one tap.  The rows of A are contiguous (packed or transposed) or
 * strided. */
LOOP void accumulate(const cpu__tile_t *t, const float *a, const float *b, vec_t *sum,
                     const int vecs, const int rows, const int side_by_side, const int fetches)
{
  const int64_t row = side_by_side ? 1 : t->a_row, next = side_by_side ? t->a_k : 1;
  const int64_t k = t->k, b_k = t->b_k, b_vec = t->b_vec;
  const int wide = vecs * PARTS;
  /* three rows share a base address; x86 can address base + 0, 1 or 2 times the stride */
  const float *base[(CPU__TILE_ROWS + 2) / 3];
  UNROLLED
  for (int i = 0; i < rows; i += 3)
    base[i / 3] = a + i * row;
  for (int64_t p = 0; p < k; p++, b += b_k) {
    if (fetches) __builtin_prefetch(t->fetch + (p & 15) * t->a_row + (p & ~(int64_t)15), 0, 2);
    vec_t w[CPU__TILE_VECS * PARTS];
    UNROLLED
    for (int v = 0; v < wide; v++)
      w[v] = *(const vec_mem_t *)(b + v / PARTS * b_vec + v % PARTS * REG);
    UNROLLED
    for (int i = 0; i < rows; i++)
      UNROLLED
    for (int v = 0; v < wide; v++)
      sum[i * wide + v] = MUL_ADD(sum[i * wide + v], base[i / 3][p * next + i % 3 * row], w[v]);
  }
}

/* Runs the epilogue: adds C, adds the bias, applies ReLU; each step handles all accumulators, since
 * one branch per accumulator would cost as much as a short product. */
LOOP void finish(const cpu__tile_t *t, vec_t *sum, const float *c, const int vecs, const int rows)
{
  const int wide = vecs * PARTS;
  if (t->add) {
    UNROLLED
    for (int i = 0; i < rows; i++)
      UNROLLED
    for (int v = 0; v < wide; v++) {
      const float *old = c + i * t->c_row + v / PARTS * t->c_vec + v % PARTS * REG;
      if (v / PARTS < vecs - 1 || t->lanes == WIDTH)
        sum[i * wide + v] += *(const vec_mem_t *)old;
      else
        sum[i * wide + v] += some(old, in_register(t->lanes, v % PARTS));
    }
  }
  if (t->bias) {
    UNROLLED
    for (int i = 0; i < rows * wide; i++)
      sum[i] += *(const vec_mem_t *)(t->bias + i % wide * REG);
  }
  if (t->relu) {
    UNROLLED
    for (int i = 0; i < rows * wide; i++)
      sum[i] = (vec_t)(~(sum[i] <= 0) & (mask_t)sum[i]);
  }
}

#if REG == 16
#  define STREAM(p, v) _mm512_stream_ps(p, (__m512)(v))
#elif REG == 8
#  define STREAM(p, v) _mm256_stream_ps(p, (__m256)(v))
#else
#  define STREAM(p, v) (*(vec_mem_t *)(p) = (v))
#endif

LOOP void put(const cpu__tile_t *t, const vec_t *sum, float *c, const int vecs, const int rows,
              const int whole, const int stream)
{
  const int wide = vecs * PARTS;
  UNROLLED
  for (int i = 0; i < rows; i++)
    UNROLLED
  for (int v = 0; v < wide; v++) {
    float *to = c + i * t->c_row + v / PARTS * t->c_vec + v % PARTS * REG;
    if (whole && stream)
      STREAM(to, sum[i * wide + v]);
    else if (whole || v / PARTS < vecs - 1)
      *(vec_mem_t *)to = sum[i * wide + v];
    else
      put_some(to, sum[i * wide + v], in_register(t->lanes, v % PARTS));
  }
}

LOOP void tile(const cpu__tile_t *t, const float *a, const float *b, float *c, const int vecs,
               const int rows)
{
  const int wide = vecs * PARTS;
  vec_t sum[CPU__TILE_ROWS * CPU__TILE_VECS * PARTS];
  UNROLLED
  for (int i = 0; i < rows * wide; i++)
    sum[i] = (vec_t){0};
  /* prefetch C, which no other access brings into the cache early */
  if (!t->stream) {
    UNROLLED
    for (int i = 0; i < rows; i++)
      UNROLLED
    for (int v = 0; v < vecs; v++)
      __builtin_prefetch(c + i * t->c_row + v * t->c_vec, 1);
  }
  for (int64_t n = 0; n < t->taps; n++) {
    const float *a_tap = a + t->a_at[n], *b_tap = b + t->b_at[n];
    if (t->a_row == 1)
      accumulate(t, a_tap, b_tap, sum, vecs, rows, 1, 0);
    else if (t->fetch)
      accumulate(t, a_tap, b_tap, sum, vecs, rows, 0, 1);
    else
      accumulate(t, a_tap, b_tap, sum, vecs, rows, 0, 0);
  }
  finish(t, sum, c, vecs, rows);
  if (t->lanes == WIDTH && t->stream)
    put(t, sum, c, vecs, rows, 1, 1);
  else if (t->lanes == WIDTH)
    put(t, sum, c, vecs, rows, 1, 0);
  else
    put(t, sum, c, vecs, rows, 0, 0);
}

/* ---- transposition ---- */

/* Exchanges lanes of two vectors a and b: lanes with `bit` set in a against lanes with it clear in
 * b.  Done for all bits and all pairs of rows that differ in that bit, it transposes a square. */
#define LOW(l, bit)      ((l) & (bit) ? REG + (l) - (bit) : (l))
#define HIGH(l, bit)     ((l) & (bit) ? REG + (l) : (l) + (bit))
#define FOUR(x, l, bit)  x(l, bit), x(l + 1, bit), x(l + 2, bit), x(l + 3, bit)
#define EIGHT(x, l, bit) FOUR(x, l, bit), FOUR(x, l + 4, bit)
#if REG == 16
#  define LANES(x, bit) EIGHT(x, 0, bit), EIGHT(x, 8, bit)
#elif REG == 8
#  define LANES(x, bit) EIGHT(x, 0, bit)
#else
#  define LANES(x, bit) FOUR(x, 0, bit)
#endif
#define EXCHANGE(v, bit)                                                       \
  UNROLLED                                                                     \
  for (int i = 0; i < REG; i++)                                                \
    if (!(i & (bit))) {                                                        \
      vec_t first = v[i], second = v[i + (bit)];                               \
      v[i] = __builtin_shufflevector(first, second, LANES(LOW, bit));          \
      v[i + (bit)] = __builtin_shufflevector(first, second, LANES(HIGH, bit)); \
    }

LOOP void turn(vec_t v[REG])
{
  EXCHANGE(v, 1)
  EXCHANGE(v, 2)
#if REG >= 8
  EXCHANGE(v, 4)
#endif
#if REG == 16
  EXCHANGE(v, 8)
#endif
}

LOOP void transpose_square(const float *a, int64_t a_row, float *b, int64_t b_row)
{
  vec_t v[REG];
  UNROLLED
  for (int i = 0; i < REG; i++)
    v[i] = *(const vec_mem_t *)(a + i * a_row);
  turn(v);
  UNROLLED
  for (int i = 0; i < REG; i++)
    *(vec_mem_t *)(b + i * b_row) = v[i];
}

static void transpose(int64_t rows, int64_t columns, const float *a, int64_t a_row, float *b,
                      int64_t b_row)
{
  for (int64_t i = 0; i < (rows + WIDTH - 1) / WIDTH * WIDTH; i += REG) {
    int64_t j = 0;
    for (; i + REG <= rows && j + REG <= columns; j += REG)
      transpose_square(a + i * a_row + j, a_row, b + j * b_row + i, b_row);
    for (; j < columns; j++)
      for (int64_t l = i; l < i + REG; l++)
        b[j * b_row + l] = l < rows ? a[l * a_row + j] : 0;
  }
}

#include "cpu/tile/pack_body.h"

/* ---- table of micro-kernels ---- */

#define TILE(vecs, rows)                                                                           \
  static void tile_##vecs##_##rows(const cpu__tile_t *t, const float *a, const float *b, float *c) \
  {                                                                                                \
    tile(t, a, b, c, vecs, rows);                                                                  \
  }
#define ENTRY(vecs, rows) [vecs][rows] = tile_##vecs##_##rows,

#define UP_TO_1(x, v)  x(v, 1)
#define UP_TO_2(x, v)  UP_TO_1(x, v) x(v, 2)
#define UP_TO_3(x, v)  UP_TO_2(x, v) x(v, 3)
#define UP_TO_4(x, v)  UP_TO_3(x, v) x(v, 4)
#define UP_TO_6(x, v)  UP_TO_4(x, v) x(v, 5) x(v, 6)
#define UP_TO_7(x, v)  UP_TO_6(x, v) x(v, 7)
#define UP_TO_9(x, v)  UP_TO_7(x, v) x(v, 8) x(v, 9)
#define UP_TO_12(x, v) UP_TO_9(x, v) x(v, 10) x(v, 11) x(v, 12)
#define UP_TO_14(x, v) UP_TO_12(x, v) x(v, 13) x(v, 14)
#define UP_TO_28(x, v)                                                                      \
  UP_TO_14(x, v)                                                                            \
  x(v, 15) x(v, 16) x(v, 17) x(v, 18) x(v, 19) x(v, 20) x(v, 21) x(v, 22) x(v, 23) x(v, 24) \
      x(v, 25) x(v, 26) x(v, 27) x(v, 28)

#if SUMS == 28
#  define ALL(x)       UP_TO_28(x, 1) UP_TO_14(x, 2) UP_TO_9(x, 3) UP_TO_7(x, 4)
#  define ROWS_OF_VECS 0, 28, 14, 9, 7
#elif SUMS == 12
#  define ALL(x)       UP_TO_12(x, 1) UP_TO_6(x, 2) UP_TO_4(x, 3) UP_TO_3(x, 4)
#  define ROWS_OF_VECS 0, 12, 6, 4, 3
#elif SUMS == 6
#  define ALL(x)       UP_TO_6(x, 1) UP_TO_3(x, 2) UP_TO_2(x, 3) UP_TO_1(x, 4)
#  define ROWS_OF_VECS 0, 6, 3, 2, 1
#endif

ALL(TILE)

const cpu__tiles_t TILES = {.width = WIDTH,
                            .vecs = CPU__TILE_VECS,
                            .rows = {ROWS_OF_VECS},
                            .run = {ALL(ENTRY)},
                            .transpose = transpose,
                            .pack = pack};

#ifdef __clang__
#  pragma clang attribute pop
#endif
