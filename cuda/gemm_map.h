/** \file gemm_map.h  A product of row-major matrices as the column-major problem that cuBLASLt
 * knows.  Module-internal; pure.
 *
 * A row-major matrix [r,c] is, byte for byte, the column-major matrix [c,r].  So C = A B,
 * row-major, is column-major C' = B' A', where the primes are transposed matrices: the first factor
 * of the library is our B, nothing is moved, and what we store transposed it takes transposed.  Its
 * D has n rows; the bias of its epilogue is a vector along the rows of D, which is our bias[n]. */
#ifndef GPU_GEMM_MAP_H
#define GPU_GEMM_MAP_H
#include "cuda/gemm_conv.h"

/** A column-major matrix as stored, or a batch of them. */
typedef struct gpu__lt_matrix {
  ct_dtype_t type;
  int64_t rows, cols;
  int64_t ld;   /**< elements between columns; at least rows */
  int64_t step; /**< elements between the matrices of a batch */
  int align;    /**< bytes: each matrix of the batch begins at a multiple of it; at most 16 */
  int turned;   /**< 1: taken transposed */
} gpu__lt_matrix_t;

/** D = op(first) op(second) + beta D (+ bias[rows of D]). */
typedef struct gpu__lt_problem {
  gpu__lt_matrix_t first, second, d; /**< B, A and C of the spec */
  int64_t batch;
  float beta;
  int bias;
} gpu__lt_problem_t;

/** CT_OK, or CT_ERR_ARG and what is wrong with the spec. */
int gpu__gemm_check(const gpu__gemm_spec_t *g);
/** A matrix or the sum is empty: no library is asked. */
int gpu__gemm_is_empty(const gpu__gemm_spec_t *g);
/** Of a spec that is not empty. */
gpu__lt_problem_t gpu__gemm_problem(const gpu__gemm_spec_t *g);
/** Elements from the begin of a matrix to its end, all of the batch. */
int64_t gpu__lt_extent(const gpu__lt_matrix_t *m, int64_t batch);

#endif
