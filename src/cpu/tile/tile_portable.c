/* The tiles for any processor: vectors of 8 floats, which the compiler cuts up. */
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC optimize("O3", "no-predictive-commoning")
#endif
#define WIDTH 8
#define REG   4
#define SUMS  6
#define TILES cpu__tiles_portable
#include "cpu/tile/tile_body.h"
