/** \file ct_matmul.h  The matrices of a MATMUL op, for backends that have a GEMM.  Layer 1. */
#ifndef CT_MATMUL_H
#define CT_MATMUL_H
#include "backend/ct_op.h"

/** One of the three tensors: its matrix, and its step from one pair of matrices to the next in each
 * leading dim; 0 where it is broadcast. */
typedef struct ct_matmul_side {
  int turned;            /**< 1: used transposed */
  int64_t rows, columns; /**< as stored; rows follow each other */
  int64_t step[CT_MAX_DIMS];
} ct_matmul_side_t;

/** y = a b for all pairs of matrices; y is m x n, the sums have k terms. */
typedef struct ct_matmul {
  ct_matmul_side_t a, b, y;
  int64_t m, n, k;
  int dims; /**< leading dims, all larger than 1, the last first */
  int64_t size[CT_MAX_DIMS];
} ct_matmul_t;

/** Pure.  Returns the matrices of a valid op.  Leading dims are merged where all three tensors
 * allow it, and become rows of a where b is broadcast. */
ct_matmul_t ct_matmul_of(const ct_op_desc_t *d);
/** Pure.  Returns the number of matrices of a result, or with \a shared the number of pairs that
 * are summed in each of them. */
int64_t ct_matmul_pairs(const ct_matmul_t *k, const ct_matmul_side_t *result, int shared);
/** Pure.  Sets the offsets of a, b and y of the pair that is the j-th of those summed in matrix i
 * of a result. */
void ct_matmul_pair(const ct_matmul_t *k, const ct_matmul_side_t *result, int64_t i, int64_t j,
                    int64_t at[3]);

#endif
