/** \file gemm_map.h  Maps a row-major matrix product to the column-major problem of cuBLASLt.
 * Module-internal; pure.
 *
 * A row-major matrix [r,c] has the same bytes as the column-major matrix [c,r]. So the row-major
 * product C = A * B is the column-major product C' = B' * A', where primes are transposes: the
 * library's first factor is our B, no data is moved, and matrices stored transposed are passed as
 * transposed. D, the library's name of the result, has n rows, and the bias of the library's
 * epilogue is a vector along the rows of D: our bias[n]. */
#ifndef GPU_GEMM_MAP_H
#define GPU_GEMM_MAP_H
#include "cuda/gemm_conv.h"

/** A column-major matrix as stored, or a batch of them. */
typedef struct gpu__lt_matrix {
  ct_dtype_t type;
  int64_t rows, cols;
  int64_t ld;   /**< leading dimension: elements between columns; at least rows */
  int64_t step; /**< elements between the matrices of a batch */
  int align;    /**< alignment of each matrix in bytes; at most 16 */
  int turned;   /**< 1: used transposed */
} gpu__lt_matrix_t;

/** D = op(first) op(second) + beta D (+ bias[rows of D]). */
typedef struct gpu__lt_problem {
  gpu__lt_matrix_t first, second, d; /**< B, A and C of the spec */
  int64_t batch;
  float beta;
  int bias;
} gpu__lt_problem_t;

/** Returns CT_OK, or CT_ERR_ARG with the reason why the spec is invalid. */
int gpu__gemm_check(const gpu__gemm_spec_t *g);
/** Returns 1 if the result or the summation is empty; the library is then not called. */
int gpu__gemm_is_empty(const gpu__gemm_spec_t *g);
/** Returns the column-major problem of a spec that is not empty. */
gpu__lt_problem_t gpu__gemm_problem(const gpu__gemm_spec_t *g);
/** Returns the number of elements from the start of the first matrix to the end of the last matrix
 * of the batch. */
int64_t gpu__lt_extent(const gpu__lt_matrix_t *m, int64_t batch);

#endif
