/** \file gemm/gemm_blocked.h  float32 GEMM.  Module-internal.
 *
 * Loops over cache blocks of k, columns and rows around the micro-kernels of tile/tile.h; operands
 * that the micro-kernels cannot read directly are packed into panels: strips of 16 rows or columns
 * that are contiguous in memory.  The order in which each element is summed does not depend on the
 * tile shape or the number of threads, so all runs give the same bits. */
#ifndef CT_CPU_GEMM_BLOCKED_H
#define CT_CPU_GEMM_BLOCKED_H
#include "cpu/kern/op.h"

/** Element (i, j) is at[i / 16 * row16 + i % 16 * row + j / 16 * col16 + j % 16 * col]. */
typedef struct cpu__matrix {
  float *at;
  int64_t row, row16, col, col16;
} cpu__matrix_t;

/** Returns a row-major matrix with leading dimension `ld`.  \a at may point to const data if the
 * matrix is only read. */
static inline cpu__matrix_t cpu__row_major(const float *at, int64_t ld)
{
  return (cpu__matrix_t){(float *)(uintptr_t)at, ld, 16 * ld, 1, 16};
}

/** Returns a matrix stored as consecutive panels of 16 columns, each [rows][16]; `rows` is at least
 * 2 (one row is row-major). */
static inline cpu__matrix_t cpu__panels(const float *at, int64_t rows)
{
  return (cpu__matrix_t){(float *)(uintptr_t)at, 16, 256, 1, 16 * rows};
}

static inline cpu__matrix_t cpu__transposed(cpu__matrix_t m)
{
  return (cpu__matrix_t){m.at, m.col, m.col16, m.row, m.row16};
}

/** The GEMM c = a * b; a is m x k, b is k x n. */
typedef struct cpu__gemm {
  int64_t m, n, k;
  /** `row` or `col` is 1; row16 = 16 row; if col16 is not 16 col, `col` is 1. */
  cpu__matrix_t a;
  /** `row` or `col` is 1; panels must be readable as a whole. */
  cpu__matrix_t b;
  /** `col` is 1 and row16 = 16 row; panels are written as a whole, with padding 0 if b's padding is
   * 0. */
  cpu__matrix_t c;
  int add;     /**< 1: accumulates into c */
  int streams; /**< 1: allows non-temporal stores of c, which is large and not read soon */
  /* epilogue: */
  const float *bias; /**< NULL, or n values that are added to each row */
  int relu;          /**< 1: ReLU; keeps NaN */
  float *sums;       /**< NULL, or n values: set to the column sums of b */
} cpu__gemm_t;

/** Hot.  Computes the GEMM: inside a parallel region on the calling thread, else on all threads of
 * the device. */
void cpu__gemm_blocked(const ct_dev_t *dev, const cpu__gemm_t *g);

/** Hot.  Runs a skinny GEMM: a has at most 16 rows, and the transpose of b is stored in panels
 * (cpu__panels()), which are read without packing.  Has no epilogue.  The result is identical for
 * any number of threads. */
void cpu__gemm_skinny(const ct_dev_t *dev, const cpu__gemm_t *g);

/** Returns 1 if cpu__gemm_skinny() supports g and is faster than cpu__gemm_blocked(). */
int cpu__gemm_is_skinny(const cpu__gemm_t *g);

/** Returns the size in bytes of each thread's part of dev->packing. */
size_t cpu__gemm_workspace(void);

#endif
