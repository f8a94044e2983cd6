/** \file tile/gemm_tiled.h  GEMM of any size on one thread, for matrices that fit the caches.
 * Module-internal. */
#ifndef CT_CPU_GEMM_TILED_H
#define CT_CPU_GEMM_TILED_H
#include "cpu/tile/tile.h"

/** Hot.  Computes C, rows x columns, on the calling thread.  t describes the first tile (its lanes
 * are ignored); vectors of B are b_vec apart throughout. */
void cpu__gemm_tiles(const cpu__tiles_t *tiles, const cpu__tile_t *t, int64_t rows, int64_t columns,
                     const float *a, const float *b, float *c);

/** A GEMM C = A * B (one tap).  Strides of A and B as in tile.h; if B is packed, b_k is the width
 * of a vector and b_vec is width * k.  Rows of C are c_row apart. */
typedef struct cpu__gemm_tiled {
  int64_t a_row, a_k, b_k, b_vec, c_row;
  int add; /**< 1: accumulates into C */
} cpu__gemm_tiled_t;

/** Hot.  Computes C, rows x columns, with sums over k. */
void cpu__gemm_tiled(const cpu__tiles_t *tiles, cpu__gemm_tiled_t p, int64_t rows, int64_t columns,
                     int64_t k, const float *a, const float *b, float *c);

/** Packs B, k x columns, for repeated use.  The columns are split into vectors, padded with zeros;
 * the packed B is [vector][k][width].  \a packed has cpu__gemm_tiled_packed() floats. */
void cpu__gemm_tiled_pack(const cpu__tiles_t *tiles, int64_t k, int64_t columns, const float *b,
                          int64_t b_k, float *packed);
/** Packs like cpu__gemm_tiled_pack(), but B is stored transposed: columns x k, rows \a row
 * apart. */
void cpu__gemm_tiled_pack_transposed(const cpu__tiles_t *tiles, int64_t k, int64_t columns,
                                     const float *b, int64_t row, float *packed);
/** Returns the size of a packed B in floats. */
int64_t cpu__gemm_tiled_packed(const cpu__tiles_t *tiles, int64_t k, int64_t columns);

#endif
