/** \file product/gemm.h  Matrix products of ops that are made of several (cpu/lstm.c,
 * cpu/attention.c): the cheapest of the ways that there are.  Module-internal. */
#ifndef CT_CPU_GEMM_H
#define CT_CPU_GEMM_H
#include "cpu/kern/gemm.h"

/** In order of preference; NULL behind the last.  To add one: a file, and its row here. */
extern const cpu__gemm_way_t *const cpu__gemm_ways[];

/** Hot.  As cpu__gemm_t says; any of m, n, k may be 0. */
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
