/* Which inner loops fit. */
#include "cpu/kern_loops.h"

static const cpu__loops_t *by_isa(int isa)
{
  static const cpu__loops_t *const table[] = {
      [CPU__PORTABLE] = &cpu__loops_portable,
#ifdef __x86_64__
      [CPU__AVX2] = &cpu__loops_avx2,
      [CPU__AVX512] = &cpu__loops_avx512,
#endif
  };
  return table[isa];
}

const cpu__loops_t *cpu__loops(const ct_dev_t *dev)
{
  return by_isa((int)dev->isa);
}

const cpu__loops_t *cpu__loops_for(const ct_dev_t *dev, int64_t lanes)
{
  for (int isa = (int)dev->isa; isa >= CPU__PORTABLE; isa--) {
    if (by_isa(isa)->width <= lanes) return by_isa(isa);
  }
  return &cpu__loops_scalar;
}
