/** \file kern/gemm.h  A matrix product as plain data, and what a way to compute one is.
 * Module-internal.
 *
 * All matrices are row-major, with rows `ld…` floats apart. */
#ifndef CT_KERN_GEMM_H
#define CT_KERN_GEMM_H
#include <stdint.h>

/** c = alpha op(a) op(b) + beta c, as BLAS's sgemm; op is 'N' (nothing) or 'T' (transposed); c is m
 * x n, op(a) m x k, op(b) k x n, none of them 0. */
typedef struct cpu__gemm {
  char op_a, op_b;
  int64_t m, n, k;
  float alpha;
  const float *a;
  int64_t lda;
  const float *b;
  int64_t ldb;
  float beta;
  float *c;
  int64_t ldc;
} cpu__gemm_t;

typedef struct cpu__gemm_way {
  const char *name;
  /** Estimated, in multiply-adds at full speed; INFINITY: not this one. */
  double (*cost)(const cpu__gemm_t *g);
  /** Hot.  Within an OpenMP region by the calling thread alone, else by all of the device. */
  int (*run)(const cpu__gemm_t *g);
} cpu__gemm_way_t;

#endif
