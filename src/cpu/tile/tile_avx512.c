/* Micro-kernels for AVX-512: vectors of 16 floats. */
#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  define WIDTH 16
#  define REG   16
#  define SUMS  28
#  define TILES cpu__tiles_avx512
#  include "cpu/tile/tile_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
