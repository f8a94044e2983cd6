/* Dense layers: one GEMM per pass. */
#include "cpu/gemm/dense.h"
#include "cpu/gemm/gemm_blocked.h"

void cpu__dense_forward(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *w,
                        const float *bias, float *y)
{
  cpu__gemm_t g = {.m = d.rows, .n = d.out, .k = d.in, .bias = bias};
  g.a = cpu__row_major(x, d.in);
  g.b = cpu__transposed(cpu__row_major(w, d.in));
  g.c = cpu__row_major(y, d.out);
  cpu__gemm_blocked(dev, &g);
}

void cpu__dense_data(const ct_dev_t *dev, cpu__dense_t d, const float *dy, const float *w,
                     float *dx)
{
  cpu__gemm_t g = {.m = d.rows, .n = d.in, .k = d.out};
  g.a = cpu__row_major(dy, d.out);
  g.b = cpu__row_major(w, d.in);
  g.c = cpu__row_major(dx, d.in);
  cpu__gemm_blocked(dev, &g);
}

void cpu__dense_param(const ct_dev_t *dev, cpu__dense_t d, const float *x, const float *dy,
                      float *dw)
{
  cpu__gemm_t g = {.m = d.out, .n = d.in, .k = d.rows};
  g.a = cpu__transposed(cpu__row_major(dy, d.out));
  g.b = cpu__row_major(x, d.in);
  g.c = cpu__row_major(dw, d.in);
  cpu__gemm_blocked(dev, &g);
}
