/** \file tile/rect.h  A product of any size, tile by tile, of matrices that lie in the caches.
 * Module-internal. */
#ifndef CT_CPU_RECT_H
#define CT_CPU_RECT_H
#include "cpu/tile/tile.h"

/** Hot.  C of rows x columns by the calling thread alone; t is that of its first tile, but for the
 * lanes, which are found here; vectors of B are b_vec apart throughout. */
void cpu__rect(const cpu__tiles_t *tiles, const cpu__tile_t *t, int64_t rows, int64_t columns,
               const float *a, const float *b, float *c);

/** A product of one tap: A with its distances, B with those of tile.h (packed: width, and width *
 * k), C with rows c_row apart. */
typedef struct cpu__rect_product {
  int64_t a_row, a_k, b_k, b_vec, c_row;
  int add; /**< to C */
} cpu__rect_product_t;

/** Hot.  Of such a product, rows x columns, over k. */
void cpu__rect_product(const cpu__tiles_t *tiles, cpu__rect_product_t p, int64_t rows,
                       int64_t columns, int64_t k, const float *a, const float *b, float *c);

/** Packs B, k x columns, for products that read it often: vector by vector of its columns, k rows
 * of each, zeros behind the last column.  \a packed holds cpu__rect_packed() floats. */
void cpu__rect_pack(const cpu__tiles_t *tiles, int64_t k, int64_t columns, const float *b,
                    int64_t b_k, float *packed);
/** The same of a B that lies transposed: columns x k, rows \a row apart. */
void cpu__rect_pack_transposed(const cpu__tiles_t *tiles, int64_t k, int64_t columns,
                               const float *b, int64_t row, float *packed);
int64_t cpu__rect_packed(const cpu__tiles_t *tiles, int64_t k, int64_t columns);

#endif
