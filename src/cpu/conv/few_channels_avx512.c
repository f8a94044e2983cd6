/* Convolutions with few channels, for AVX-512. */
#ifdef __x86_64__
#  include "cpu/conv/few_channels_loops.h"
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
/* Sanitizer checks in these unrolled loops would take a compiler minutes; guard pages and NaNs in
 * tests/conform detect writes outside the tensors. */
#    pragma clang attribute push(__attribute__((no_sanitize("address", "undefined"))), \
                                 apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  include "cpu/conv/few_channels_pixels.h"
#  define LANES           8
#  define OF_PIXELS(loop) loop##_pixels
#  define ROWS_OF_5X5     5
#  define LOOPS_TABLE     cpu__few_loops_avx512_8
#  include "cpu/conv/few_channels_body.h"
#  define LANES       16
#  define ROWS_OF_5X5 5
#  define LOOPS_TABLE cpu__few_loops_avx512_16
#  include "cpu/conv/few_channels_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#    pragma clang attribute pop
#  endif
#endif
