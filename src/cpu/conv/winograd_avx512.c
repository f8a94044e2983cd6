/* Winograd transforms for AVX-512: blocks of 16 channels. */
#ifdef __x86_64__
#  include "cpu/conv/winograd_loops.h"
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#    pragma GCC optimize("O3")
#  endif
#  define CPU__VW  16
#  define CPU__ISA avx512
#  include "cpu/conv/winograd_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
