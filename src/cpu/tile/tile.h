/** \file tile/tile.h  The innermost loop of every product in float32: some rows and vectors of a
 * result that stay in registers while products of small matrices are summed up.  Module-internal.
 *
 * Products, Winograd's products and direct convolutions are loops around it: it is the
 * batch-reduce product of Georganas et al., "Harnessing Deep Learning via a Single Building Block"
 * (2020).  A vector has as many floats as a block of the device's blocked layout has channels
 * (cpu__blocked()).  Each element of the result is a sum in the order of taps and, within a tap, of
 * k, one fused multiply-add each where the processor has them: it depends on neither the shape of
 * the tile nor who computes it. */
#ifndef CT_CPU_TILE_H
#define CT_CPU_TILE_H
#include "cpu/kern/op.h"

/** Most rows and vectors of a tile, of any instruction set. */
enum { CPU__TILE_ROWS = 28, CPU__TILE_VECS = 4 };

/** C = sum over taps of A B, with A rows x k and B k x vecs vectors.  Distances are in floats. */
typedef struct cpu__tile {
  int64_t taps;
  const int64_t *a_at, *b_at; /**< where A and B of each tap begin, from a and b */
  int64_t k;
  int64_t a_row, a_k; /**< from one row of A, or k, to the next; one of them is 1 */
  int64_t b_k, b_vec; /**< from one k of B, or vector, to the next */
  int64_t c_row, c_vec;
  int lanes;         /**< of the last vector that C has; B has all of them */
  int add;           /**< 1: C is added to */
  const float *bias; /**< NULL, or whole vectors that are added to each row, as many as C has */
  int relu;          /**< 1: ReLU at the end; NaN stays NaN */
  int stream;        /**< 1: C, aligned to whole vectors, may go around the caches; then the thread
                          that ran tiles calls cpu__tile_fence() behind them */
} cpu__tile_t;

typedef void cpu__tile_run_t(const cpu__tile_t *t, const float *a, const float *b, float *c);

/** Lanes of a packed matrix: 16 rows of A or columns of B side by side, whatever the vectors. */
enum { CPU__PANEL = 16 };

/** What is packed: some lanes of k, the others of the panel become 0.  One of `k_step` and `lane`
 * is 1. */
typedef struct cpu__pack {
  int64_t k;
  int64_t k_step, k16; /**< from one k to the next, and from a multiple of 16 to the next */
  int64_t lane;        /**< from one lane to the next */
  int lanes;
  float *sums; /**< NULL, or CPU__PANEL floats that the sums over k are added to */
} cpu__pack_t;

/** to[k][CPU__PANEL] */
typedef void cpu__pack_run_t(const cpu__pack_t *p, const float *from, float *to);

/** The tiles of an instruction set. */
typedef struct cpu__tiles {
  int width;                    /**< floats of a vector */
  int vecs;                     /**< most vectors */
  int rows[CPU__TILE_VECS + 1]; /**< most rows of a tile of so many vectors: what registers hold */
  cpu__tile_run_t *run[CPU__TILE_VECS + 1][CPU__TILE_ROWS + 1]; /**< [vectors][rows] */
  /** b = a transposed, with zeros up to whole vectors behind each row of b; a is rows x columns. */
  void (*transpose)(int64_t rows, int64_t columns, const float *a, int64_t a_row, float *b,
                    int64_t b_row);
  cpu__pack_run_t *pack;
} cpu__tiles_t;

extern const cpu__tiles_t cpu__tiles_portable, cpu__tiles_avx2, cpu__tiles_avx512;

/** What tiles stored around the caches becomes visible before all later stores. */
static inline void cpu__tile_fence(void)
{
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

/** Of the device's widest vectors. */
const cpu__tiles_t *cpu__tiles(const ct_dev_t *dev);

#endif
