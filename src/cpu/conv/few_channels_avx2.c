/* Convolutions with few channels, for AVX2 and FMA. */
#ifdef __x86_64__
#  include "cpu/conv/few_channels_loops.h"
#  ifdef __clang__
#    pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
/* Sanitizer checks in these unrolled loops would take a compiler minutes; guard pages and NaNs in
 * tests/conform detect writes outside the tensors. */
#    pragma clang attribute push(__attribute__((no_sanitize("address", "undefined"))), \
                                 apply_to = function)
#  else
#    pragma GCC target("avx2,fma")
#    pragma GCC optimize("O3", "no-predictive-commoning")
#  endif
#  define LANES       8
#  define ROWS_OF_5X5 2
#  define LOOPS_TABLE cpu__few_loops_avx2_8
#  include "cpu/conv/few_channels_body.h"
#  ifdef __clang__
#    pragma clang attribute pop
#    pragma clang attribute pop
#  endif
#endif
