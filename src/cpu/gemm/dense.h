/** \file gemm/dense.h  Dense layers inside LSTM and attention (cpu/lstm.c, cpu/attention.c).
 * Module-internal.
 *
 * y = x w^T over rows, with w [out, in]; all matrices are plain. */
#ifndef CT_CPU_DENSE_H
#define CT_CPU_DENSE_H
#include "cpu/kern/op.h"

typedef struct cpu__dense {
  int64_t rows, in, out;
} cpu__dense_t;

/** Hot.  Computes y = x w^T + bias.  bias: [out], or NULL. */
void cpu__dense_forward(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *w,
                        const float *bias, float *y);
/** Hot.  Computes dx from dy. */
void cpu__dense_data(const ct_dev_t *dev, cpu__dense_t d, const float *dy, const float *w,
                     float *dx);
/** Hot.  Computes dw from dy.  The caller computes the bias gradient with cpu__column_sums(). */
void cpu__dense_param(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *dy,
                      float *dw);

#endif
