/** \file onednn/gemm.h  Matrix products of ops that are made of several: oneDNN's sgemm.  Module-internal.
 *
 * All matrices are row-major, with rows `ld…` floats apart.  Within an OpenMP region a product is done by
 * the calling thread alone, else by all of the device; where it then cuts a long k apart, the result's
 * last bits depend on the number of threads. */
#ifndef CT_CPU_GEMM_H
#define CT_CPU_GEMM_H
#include <stdint.h>

/** Hot.  c = alpha op(a) op(b) + beta c, as BLAS's sgemm; op is 'N' (nothing) or 'T' (transposed); c is
 * m x n, op(a) m x k, op(b) k x n.  Any of m, n, k may be 0. */
int cpu__gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
              int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/** A dense layer y = x w^T (+ y if \a add) over rows, w [out, in], and its two gradients.  Hot. */
typedef struct cpu__dense {
  int64_t rows, in, out;
} cpu__dense_t;
int cpu__dense_forward(cpu__dense_t d, const float *x, const float *w, int add, float *y);
int cpu__dense_data(cpu__dense_t d, const float *dy, const float *w, float *dx);
int cpu__dense_param(cpu__dense_t d, const float *x, const float *dy, float *dw);

#endif
