/* Converts whole activations between bf16 and float32 in any layout, including padding. */
#include "cpu/kern/loops.h"

void cpu__to_floats(const ct_dev_t *dev, int64_t count, const void *x, float *y)
{
  const cpu__loops_t *loops = cpu__loops(dev, CT_BF16);
  int parts = dev->threads;

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->to_floats(p.count, cpu__at(x, p.first, CT_BF16), y + p.first);
  }
}

void cpu__from_floats(const ct_dev_t *dev, int64_t count, const float *x, void *y, int relu)
{
  const cpu__loops_t *loops = cpu__loops(dev, CT_BF16);
  int parts = dev->threads, stream = cpu__streams(y, (size_t)count * sizeof(uint16_t));

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->from_floats(p.count, x + p.first, cpu__at(y, p.first, CT_BF16), relu, stream);
  }
}
