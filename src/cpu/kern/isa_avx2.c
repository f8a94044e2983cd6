/* The inner loops for AVX2 and FMA: 8 floats. */
#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx2,fma")
#  endif
#  define CPU__VW  8
#  define CPU__ISA avx2
#  include "cpu/kern/isa.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
