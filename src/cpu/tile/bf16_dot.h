/** \file tile/pairs.h  Products of bfloat16 with sums in float32, where the processor has them
 * (AVX512_BF16).  Module-internal.
 *
 * Two numbers of bfloat16 that follow each other in k, the first one in the lower half, lie in
 * memory as one float does.  So the tiles, rectangles and transpositions of tile/ work on pairs as
 * on floats: k counts pairs, all distances are in pairs, and A and B are passed as floats.  C is of
 * floats.  Rows of bfloat16 are rows of pairs as they lie, if k is even. */
#ifndef CT_CPU_PAIRS_H
#define CT_CPU_PAIRS_H
#include "cpu/tile/tile.h"

/** The tiles for pairs, of as many lanes as those for floats; NULL if the processor lacks them. */
const cpu__tiles_t *cpu__tiles_of_pairs(const ct_dev_t *dev);

/** Hot.  Pairs up two rows of `count` elements: element j of both becomes out[j / 16 * panel +
 * j % 16], with zeros up to a whole vector.  second: NULL for zeros. */
void cpu__pair_rows(int64_t count, const uint16_t *first, const uint16_t *second, uint32_t *out,
                    int64_t panel);
/** Hot.  The same of rows of floats, rounded. */
void cpu__pair_floats(int64_t count, const float *first, const float *second, uint32_t *out,
                      int64_t panel);

#endif
