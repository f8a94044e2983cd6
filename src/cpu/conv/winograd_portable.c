/* Winograd transforms for any processor: blocks of 8 channels. */
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC optimize("O3")
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are only passed to inlined functions */
#define CPU__VW  8
#define CPU__ISA portable
#include "cpu/conv/winograd_body.h"
