/* Cuts a GEMM into tiles of nearly equal size: a group of vectors of B stays in the L1 cache while
 * the rows stream past. */
#include "cpu/tile/gemm_tiled.h"
#include <string.h>

/* Returns the number of vectors of the next tiles, when `left` vectors are left: the maximum with
 * which all rows fit into one tile, else two or three, which run at full speed. */
static int64_t group(const cpu__tiles_t *tiles, int64_t rows, int64_t left)
{
  for (int64_t v = tiles->vecs; v > 2; v--)
    if (v <= left && rows <= tiles->rows[v]) return v;
  return left == 3 && tiles->rows[3] >= 3 ? 3 : left < 2 ? left : 2;
}

void cpu__gemm_tiles(const cpu__tiles_t *tiles, const cpu__tile_t *t, int64_t rows, int64_t columns,
                     const float *a, const float *b, float *c)
{
  cpu__tile_t one = *t;
  int64_t vecs = (columns + tiles->width - 1) / tiles->width, n;
  for (int64_t v = 0; v < vecs; v += n) {
    n = group(tiles, rows, vecs - v);
    one.lanes = (int)(v + n < vecs ? tiles->width : columns - (vecs - 1) * tiles->width);
    one.bias = t->bias ? t->bias + v * tiles->width : NULL;
    int64_t most = tiles->rows[n], parts = (rows + most - 1) / most;
    for (int64_t i = 0; i < parts; i++) {
      int64_t first = rows * i / parts, count = rows * (i + 1) / parts - first;
      tiles->run[n][count](&one, a + first * t->a_row, b + v * t->b_vec,
                           c + first * t->c_row + v * t->c_vec);
    }
  }
}

void cpu__gemm_tiled(const cpu__tiles_t *tiles, cpu__gemm_tiled_t p, int64_t rows, int64_t columns,
                     int64_t k, const float *a, const float *b, float *c)
{
  static const int64_t start[1] = {0};
  cpu__tile_t t = {.taps = 1,
                   .a_at = start,
                   .b_at = start,
                   .k = k,
                   .a_row = p.a_row,
                   .a_k = p.a_k,
                   .b_k = p.b_k,
                   .b_vec = p.b_vec,
                   .c_row = p.c_row,
                   .c_vec = tiles->width,
                   .add = p.add};
  cpu__gemm_tiles(tiles, &t, rows, columns, a, b, c);
}

/* Returns the number of valid columns of the vector that begins at column j. */
static int64_t lanes(const cpu__tiles_t *tiles, int64_t columns, int64_t j)
{
  return columns - j < tiles->width ? columns - j : tiles->width;
}

void cpu__gemm_tiled_pack(const cpu__tiles_t *tiles, int64_t k, int64_t columns, const float *b,
                          int64_t b_k, float *packed)
{
  int64_t width = tiles->width;
  for (int64_t j = 0; j < columns; j += width)
    for (int64_t p = 0, n = lanes(tiles, columns, j); p < k; p++, packed += width) {
      memcpy(packed, b + p * b_k + j, (size_t)n * sizeof *packed);
      memset(packed + n, 0, (size_t)(width - n) * sizeof *packed);
    }
}

void cpu__gemm_tiled_pack_transposed(const cpu__tiles_t *tiles, int64_t k, int64_t columns,
                                     const float *b, int64_t row, float *packed)
{
  for (int64_t j = 0; j < columns; j += tiles->width, packed += k * tiles->width)
    tiles->transpose(lanes(tiles, columns, j), k, b + j * row, row, packed, tiles->width);
}

int64_t cpu__gemm_tiled_packed(const cpu__tiles_t *tiles, int64_t k, int64_t columns)
{
  return (columns + tiles->width - 1) / tiles->width * tiles->width * k;
}
