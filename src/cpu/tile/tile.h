/** \file tile/tile.h  Micro-kernels of all float32 GEMMs and convolutions: a tile of rows x vectors
 * of C stays in registers while products of small matrices are accumulated.  Module-internal.
 *
 * GEMM, Winograd and direct convolution are loops around the micro-kernel, which is the
 * batch-reduce GEMM of Georganas et al., "Harnessing Deep Learning via a Single Building Block"
 * (2020).  A vector has as many floats as a block of the device's blocked layout has channels
 * (cpu__blocked()).  Each element of C is summed in the order of taps (the summands of the batch)
 * and, within a tap, of k, with fused multiply-adds where the processor has them.  So the result
 * does not depend on the shape of the tile or the number of threads. */
#ifndef CT_CPU_TILE_H
#define CT_CPU_TILE_H
#include "cpu/kern/op.h"

/** Maximum rows and vectors of a tile, for all instruction sets. */
enum { CPU__TILE_ROWS = 28, CPU__TILE_VECS = 4 };

/** C = sum over taps of A * B; A is rows x k, B is k x (vecs vectors).  A tap is one summand; in a
 * direct convolution it is an element of the kernel.  Strides are in floats. */
typedef struct cpu__tile {
  int64_t taps;
  const int64_t *a_at, *b_at; /**< offsets of A and B of each tap from a and b */
  int64_t k;
  int64_t a_row; /**< stride of A along rows; a_row or a_k is 1 */
  int64_t a_k;   /**< stride of A along k */
  int64_t b_k;   /**< stride of B along k */
  int64_t b_vec; /**< stride of B between vectors */
  int64_t c_row, c_vec;
  int lanes;         /**< lanes of C's last vector; B always has whole vectors */
  int add;           /**< 1: accumulates into C */
  const float *bias; /**< NULL, or one value per column of C, in whole vectors */
  int relu;          /**< 1: ReLU at the end; keeps NaN */
  int stream;        /**< 1: non-temporal stores of C, which is aligned to whole vectors; the thread
                          must then call cpu__tile_fence() after its last tile */
  /** NULL, or the rows of A, with a_k 1, that the next tiles read: 16 of them are prefetched during
   * the products, a cache line at each k */
  const float *fetch;
} cpu__tile_t;

typedef void cpu__tile_run_t(const cpu__tile_t *t, const float *a, const float *b, float *c);

/** Lanes of a packed panel.  A panel is a strip of 16 rows of A or 16 columns of B (its lanes) over
 * all k, contiguous in memory; the vector length may differ from 16. */
enum { CPU__PANEL = 16 };

/** A packing task: copies `lanes` lanes over k into a panel and sets the other lanes to 0.
 * `k_step` or `lane` is 1. */
typedef struct cpu__pack {
  int64_t k;
  int64_t k_step; /**< stride in the source from one k to the next */
  int64_t k16;    /**< stride in the source from one multiple of 16 of k to the next */
  int64_t lane;   /**< stride in the source from one lane to the next */
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
  /** Transposes a (rows x columns) into b; rows of b are padded with zeros to whole vectors. */
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

/** Returns the micro-kernels for the device's instruction set. */
const cpu__tiles_t *cpu__tiles(const ct_dev_t *dev);

#endif
