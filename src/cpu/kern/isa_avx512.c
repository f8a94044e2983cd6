/* The inner loops for AVX-512: 16 floats. */
#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#  endif
#  define CPU__VW  16
#  define CPU__ISA avx512
#  include "cpu/kern/isa.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
