/* Convolutions with few channels, for AVX-512. */
#ifdef __x86_64__
#  include "cpu/conv/few_channels_loops.h"
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  define TINY_LANES 8
#  define TINY_ROWS5 5
#  define TINY_TABLE cpu__tiny_avx512_8
#  include "cpu/conv/few_channels_body.h"
#  define TINY_LANES 16
#  define TINY_ROWS5 5
#  define TINY_TABLE cpu__tiny_avx512_16
#  include "cpu/conv/few_channels_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
