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

/** Hot.  bias: [out], or NULL. */
void cpu__dense_forward(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *w,
                        const float *bias, float *y);
/** Hot.  dx from dy. */
void cpu__dense_data(const ct_dev_t *dev, cpu__dense_t d, const float *dy, const float *w,
                     float *dx);
/** Hot.  dw from dy; the bias gradient is cpu__column_sums() of dy. */
void cpu__dense_param(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *dy,
                      float *dw);

#endif
