/** \file product/multiply.h  Products of float32 matrices, by hand.  Module-internal.
 *
 * Blocks of k, of columns and of rows, each as large as a cache holds, around the tiles of
 * tile/tile.h; what the tiles cannot read as it lies is packed on the way.  Each element of the
 * result is summed up in the same order whatever the shape of its tile and the number of threads:
 * all runs give the same bits. */
#ifndef CT_CPU_MULTIPLY_H
#define CT_CPU_MULTIPLY_H
#include "cpu/kern/op.h"

/** Element (i, j) is at[i / 16 * row16 + i % 16 * row + j / 16 * col16 + j % 16 * col]. */
typedef struct cpu__matrix {
  float *at;
  int64_t row, row16, col, col16;
} cpu__matrix_t;

/** Rows `ld` floats apart.  What is only read may be const. */
static inline cpu__matrix_t cpu__row_major(const float *at, int64_t ld)
{
  return (cpu__matrix_t){(float *)(uintptr_t)at, ld, 16 * ld, 1, 16};
}

/** Panels of 16 columns one after the other, each [rows][16]; there are `rows` of them in memory, 2
 * or more (one is row-major). */
static inline cpu__matrix_t cpu__panels(const float *at, int64_t rows)
{
  return (cpu__matrix_t){(float *)(uintptr_t)at, 16, 256, 1, 16 * rows};
}

static inline cpu__matrix_t cpu__transposed(cpu__matrix_t m)
{
  return (cpu__matrix_t){m.at, m.col, m.col16, m.row, m.row16};
}

/** c = a b, with a m x k and b k x n. */
typedef struct cpu__multiply {
  int64_t m, n, k;
  /** Of each, `row` or `col` is 1; row16 is 16 row, and of a col16 is 16 col. */
  cpu__matrix_t a;
  /** `row` or `col` is 1; in panels: whole ones can be read. */
  cpu__matrix_t b;
  /** `col` is 1 and row16 is 16 row; in panels: whole ones are written, with 0 as padding if b has
   * it so. */
  cpu__matrix_t c;
  int add;     /**< 1: c is added to */
  int streams; /**< 1: c may go around the caches: it is large, and not read soon */
  /* last come: */
  const float *bias; /**< NULL, or n, added to each row */
  int relu;          /**< 1: ReLU; NaN stays NaN */
  float *sums;       /**< NULL, or n: becomes the sums of b's columns */
} cpu__multiply_t;

/** Hot.  Within an OpenMP region by the calling thread alone, else by all of the device. */
void cpu__multiply(const ct_dev_t *dev, const cpu__multiply_t *g);

/** The same of at most 16 rows, with a b in panels that lie across, which is not packed.  Nothing
 * comes last.  Hot; the same bits for any number of threads. */
void cpu__multiply_few(const ct_dev_t *dev, const cpu__multiply_t *g);

/** Whether cpu__multiply_few() can do it, and is faster. */
int cpu__is_few(const cpu__multiply_t *g);

/** Bytes that each thread has for packing, of dev->packing. */
size_t cpu__multiply_room(void);

#endif
