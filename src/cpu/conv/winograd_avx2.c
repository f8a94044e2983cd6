/* Winograd transforms for AVX2 and FMA: blocks of 8 channels. */
#ifdef __x86_64__
#  include "cpu/conv/winograd_loops.h"
#  ifdef __clang__
#    pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx2,fma")
#    pragma GCC optimize("O3")
#  endif
#  define CPU__VW  8
#  define CPU__ISA avx2
#  include "cpu/conv/winograd_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
