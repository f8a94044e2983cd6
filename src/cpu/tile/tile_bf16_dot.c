/* Micro-kernels for AVX512_BF16: vectors of 16 pairs.  The instruction flushes denormals to 0, and
 * adds both products of a pair before it rounds. */
#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push(                                                     \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"))), \
        apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  include <immintrin.h>
#  define MUL_ADD(sum, factor, vector) \
    ((vec_t)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_ps(factor), (__m512bh)(vector)))
#  define WIDTH 16
#  define REG   16
#  define SUMS  28
#  define TILES cpu__tiles_bf16_dot
#  include "cpu/tile/tile_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#endif
