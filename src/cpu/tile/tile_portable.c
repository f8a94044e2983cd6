/* Micro-kernels for any processor: vectors of 8 floats, which the compiler splits.  24 of NEON's 32
 * registers hold accumulators; GCC's scheduling before register allocation would move so many loads
 * up that accumulators are spilled in every iteration. */
#if defined(__aarch64__) && !defined(__clang__)
#  pragma GCC optimize("O3", "no-predictive-commoning", "no-schedule-insns")
#elif defined(__GNUC__) && !defined(__clang__)
#  pragma GCC optimize("O3", "no-predictive-commoning")
#endif
#define WIDTH 8
#define REG   4
#ifdef __aarch64__
#  define SUMS 12
#else
#  define SUMS 6
#endif
#define TILES cpu__tiles_portable
#include "cpu/tile/tile_body.h"
