/* Micro-kernels for AVX2 and FMA: vectors of 8 floats. */
#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx2,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  define WIDTH 8
#  define REG   8
#  define SUMS  12
#  define TILES cpu__tiles_avx2
#  include "cpu/tile/tile_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
