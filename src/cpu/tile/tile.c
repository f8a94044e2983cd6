/* Selects the micro-kernels for the processor. */
#include "cpu/tile/tile.h"

const cpu__tiles_t *cpu__tiles(const ct_dev_t *dev)
{
#ifdef __x86_64__
  if (dev->isa == CPU__AVX512) return &cpu__tiles_avx512;
  if (dev->isa == CPU__AVX2) return &cpu__tiles_avx2;
#else
  (void)dev;
#endif
  return &cpu__tiles_portable;
}
