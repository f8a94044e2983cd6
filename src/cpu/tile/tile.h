/** \file tile/tile.h  Micro-kernels of all float32 GEMMs and convolutions: a tile of rows x vectors
 * of C stays in registers while products of small matrices are accumulated.  Module-internal.
 *
 * GEMM, Winograd and direct convolution are loops around it: it is the batch-reduce GEMM of
 * Georganas et al., "Harnessing Deep Learning via a Single Building Block" (2020).  A vector has as
 * many floats as a block of the device's blocked layout has channels (cpu__blocked()).  Each
 * element of C is summed in the order of taps (the summands of the batch) and, within a tap, of k,
 * with fused multiply-adds where the processor has them.  So the result does not depend on the
 * shape of the tile or the number of threads. */
#ifndef CT_CPU_TILE_H
#define CT_CPU_TILE_H
#include "cpu/kern/op.h"

/** Maximum rows and vectors of a tile, for all instruction sets. */
enum { CPU__TILE_ROWS = 28, CPU__TILE_VECS = 4 };

/** C = sum over taps of A B, with A rows x k and B k x vecs vectors.  Strides are in floats. */
typedef struct cpu__tile {
  int64_t taps;
  const int64_t *a_at, *b_at; /**< offsets of A and B of each tap from a and b */
  int64_t k;
  int64_t a_row, a_k; /**< strides of A along rows and k; one of them is 1 */
  int64_t b_k, b_vec; /**< strides of B along k and vectors */
  int64_t c_row, c_vec;
  int lanes;         /**< lanes of C's last vector; B always has whole vectors */
  int add;           /**< 1: accumulates into C */
  const float *bias; /**< NULL, or one value per column of C, in whole vectors */
  int relu;          /**< 1: ReLU at the end; keeps NaN */
  int stream;        /**< 1: non-temporal stores of C, which is aligned to whole vectors; the thread
                          must then call cpu__tile_fence() after its last tile */
} cpu__tile_t;

typedef void cpu__tile_run_t(const cpu__tile_t *t, const float *a, const float *b, float *c);

/** Lanes of a packed panel: 16 rows of A or columns of B, whatever the vector length. */
enum { CPU__PANEL = 16 };

/** A packing task: copies k values of each of `lanes` lanes into a panel of CPU__PANEL lanes; the
 * remaining lanes become 0.  One of the strides `k_step` and `lane` is 1. */
typedef struct cpu__pack {
  int64_t k;
  int64_t k_step, k16; /**< strides in the source: to the next k; to the next multiple of 16 */
  int64_t lane;        /**< stride from one lane to the next */
  int lanes;
  float *sums; /**< NULL, or CPU__PANEL floats to which the sums over k are added */
} cpu__pack_t;

/** Writes to[k][CPU__PANEL]. */
typedef void cpu__pack_run_t(const cpu__pack_t *p, const float *from, float *to);

/** The micro-kernels of an instruction set. */
typedef struct cpu__tiles {
  int width;                    /**< floats per vector */
  int vecs;                     /**< maximum vectors of a tile */
  int rows[CPU__TILE_VECS + 1]; /**< maximum rows of a tile with that many vectors, limited by
                                     registers */
  cpu__tile_run_t *run[CPU__TILE_VECS + 1][CPU__TILE_ROWS + 1]; /**< [vectors][rows] */
  /** b = a transposed; rows of b are padded with zeros to whole vectors.  a is rows x columns. */
  void (*transpose)(int64_t rows, int64_t columns, const float *a, int64_t a_row, float *b,
                    int64_t b_row);
  cpu__pack_run_t *pack;
} cpu__tiles_t;

extern const cpu__tiles_t cpu__tiles_portable, cpu__tiles_avx2, cpu__tiles_avx512;

/** Makes non-temporal stores of tiles visible before all later stores. */
static inline void cpu__tile_fence(void)
{
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

/** The micro-kernels for the device's instruction set. */
const cpu__tiles_t *cpu__tiles(const ct_dev_t *dev);

#endif
