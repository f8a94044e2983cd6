/* Selects the table of inner loops. */
#include "cpu/kern/loops.h"

static const cpu__loops_t *by_isa(int isa, ct_dtype_t dtype)
{
  static const cpu__loops_t *const table[][2] = {
      [CPU__PORTABLE] = {&cpu__loops_portable, &cpu__loops_bf16_portable},
#ifdef __x86_64__
      [CPU__AVX2] = {&cpu__loops_avx2, &cpu__loops_bf16_avx2},
      [CPU__AVX512] = {&cpu__loops_avx512, &cpu__loops_bf16_avx512},
#endif
  };
  return table[isa][dtype == CT_BF16];
}

const cpu__loops_t *cpu__loops(const ct_dev_t *dev, ct_dtype_t dtype)
{
  return by_isa((int)dev->isa, dtype);
}

const cpu__loops_t *cpu__loops_for(const ct_dev_t *dev, ct_dtype_t dtype, int64_t lanes)
{
  for (int isa = (int)dev->isa; isa >= CPU__PORTABLE; isa--) {
    if (by_isa(isa, dtype)->width <= lanes) return by_isa(isa, dtype);
  }
  return dtype == CT_BF16 ? &cpu__loops_bf16_scalar : &cpu__loops_scalar;
}
