/* Direct convolution: computes which positions of x and y meet along one dim. */
#include "cpu/conv/direct.h"

static int64_t floor_div(int64_t a, int64_t b)
{
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Finds the range of i, among the first `count`, with 0 <= at + i * step < size. */
static void find_inside(cpu__overlap_t *m, int64_t step, int64_t size, int64_t count)
{
  m->lo = m->at < 0 ? (-m->at + step - 1) / step : 0;
  m->hi = floor_div(size - 1 - m->at, step) + 1;
  if (m->hi > count) m->hi = count;
  if (m->hi < m->lo) m->hi = m->lo;
}

void cpu__line_forward(const cpu__direct_t *d, int direction, cpu__line_t *out)
{
  int kernel = d->kernel[direction];
  *out = (cpu__line_t){.phases = 1, .step = d->stride[direction]};
  out->phase[0] = (cpu__phase_t){.count = d->y.size[direction], .end = kernel};
  for (int k = 0; k < kernel; k++) {
    out->overlap[k].tap = k;
    out->overlap[k].at = (int64_t)k * d->dilate[direction] - d->pad[direction];
    find_inside(&out->overlap[k], out->step, d->x.size[direction], d->y.size[direction]);
  }
}

void cpu__line_back(const cpu__direct_t *d, int direction, cpu__line_t *out)
{
  int n = 0, stride = d->stride[direction];
  *out = (cpu__line_t){.phases = stride, .step = 1};
  for (int p = 0; p < stride; p++) {
    cpu__phase_t *phase = &out->phase[p];
    phase->count = (d->x.size[direction] - p + stride - 1) / stride;
    phase->first = n;
    for (int k = 0; k < d->kernel[direction]; k++) {
      int64_t at = (int64_t)p + d->pad[direction] - (int64_t)k * d->dilate[direction];
      if (at % stride != 0) continue;
      out->overlap[n].tap = k;
      out->overlap[n].at = at / stride;
      find_inside(&out->overlap[n++], 1, d->y.size[direction], phase->count);
    }
    phase->end = n;
  }
}
