/* Convolutions with few channels, for NEON: 8 channels are two registers, so 14 pixels take 28 of
 * the 32. */
#ifdef __aarch64__
#  include "cpu/conv/few_channels_loops.h"
#  ifndef __clang__
#    pragma GCC optimize("O3", "no-predictive-commoning", "no-schedule-insns")
#  endif
#  define LANES       8
#  define REG         4
#  define ROWS_OF_5X5 2
#  define LOOPS_TABLE cpu__few_loops_neon_8
#  include "cpu/conv/few_channels_body.h"
#endif
