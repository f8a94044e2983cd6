/** \file tile/bf16_dot.h  bf16 dot products with float32 accumulation (AVX512_BF16).
 * Module-internal.
 *
 * Two bf16 values that are consecutive in k, the first in the lower half, occupy the memory of one
 * float.  So the micro-kernels, GEMMs and transpositions of tile/ treat a pair as one float: k
 * counts pairs, all strides are in pairs, and A and B are passed as float pointers.  C is float32.
 * A row of an even number of bf16 values is a row of pairs without conversion. */
#ifndef CT_CPU_BF16_DOT_H
#define CT_CPU_BF16_DOT_H
#include "cpu/tile/tile.h"

/** Returns the micro-kernels for pairs, with as many lanes as the micro-kernels for floats; NULL if
 * the processor lacks bf16 dot products. */
const cpu__tiles_t *cpu__bf16_dot_tiles(const ct_dev_t *dev);

/** Hot.  Interleaves two rows of `count` elements: element j of both goes to out[j / 16 * panel + j
 * % 16], padded with zeros to a whole vector.  second: NULL for zeros. */
void cpu__interleave_rows(int64_t count, const uint16_t *first, const uint16_t *second,
                          uint32_t *out, int64_t panel);
/** Hot.  Interleaves like cpu__interleave_rows() two rows of floats, which it rounds to bf16. */
void cpu__interleave_floats(int64_t count, const float *first, const float *second, uint32_t *out,
                            int64_t panel);

#endif
