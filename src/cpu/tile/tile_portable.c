/* The tiles for any processor: vectors of 8 floats, which the compiler cuts up.  Of NEON's 32
 * registers 24 hold sums; GCC's scheduling before registers are given out would move so many loads
 * up that some of the sums go to memory and back for every k. */
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
