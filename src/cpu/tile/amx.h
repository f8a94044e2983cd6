/** \file tile/amx.h  Micro-kernel and packing for AMX: tiles of 16x16 float32 results, products of
 * bf16.  Module-internal.
 *
 * The instruction TDPBF16PS adds to a tile C (16 x 16 float32) the product of A (16 rows x 32 bf16)
 * and B (16 pairs of k x 16 columns x 2).  The micro-kernel keeps up to 2 x 2 tiles of C while it
 * adds the products of several taps.  Denormals count as 0. */
#ifndef CT_CPU_AMX_H
#define CT_CPU_AMX_H
#include "cpu/kern/op.h"

/** Rows and columns of a tile of C, and the k of a product of tiles. */
enum { CPU__AMX = 16, CPU__AMX_K = 32 };

/** C = sum over taps and steps of A * B; strides are in elements. */
typedef struct cpu__amx {
  int64_t taps;
  const int64_t *a_at, *b_at; /**< offsets of A and B of each tap from a and b */
  int64_t steps;              /**< products per tap, each for CPU__AMX_K of k */
  int64_t a_row;              /**< stride of A along rows; along k it is 1 */
  int64_t a_tile, b_tile;     /**< strides of A and B from one tile to the next, if there are two */
  int64_t c_row;              /**< stride of C along rows */
  int64_t c_down, c_right;    /**< strides of C from one tile to the next */
  int down, right;            /**< tiles: 1 or 2 each */
  int add;                    /**< 1: accumulates into C */
} cpu__amx_t;

/** Returns 1 if the processor has AMX for bf16 and this process may use it. */
int cpu__amx_is_there(void);
/** Hot.  A thread calls it before its first cpu__amx_run(), and cpu__amx_end() after the last. */
void cpu__amx_begin(void);
void cpu__amx_end(void);
/** Hot.  A step of A is 32 elements further, a step of B 512: [16 pairs][16 columns][2]. */
void cpu__amx_run(const cpu__amx_t *t, const uint16_t *a, const uint16_t *b, float *c);

/** Pixels of an image in channels last, gathered in the order of a table. */
typedef struct cpu__gather {
  const uint16_t *image;
  int64_t channels;     /**< stride from one pixel to the next */
  const int32_t *table; /**< pixel for each k; -1: zeros */
  int64_t k;            /**< a multiple of CPU__AMX_K */
} cpu__gather_t;

/** Hot.  Packs up to 32 channels from `c` as columns of B: two tiles of 16 channels, the second
 * `next` elements after the first. */
void cpu__amx_pack_b(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t next);
/** Hot.  Packs up to 32 channels from `c` as rows of A, `row` elements apart.  Missing channels of
 * the last 16 become zeros. */
void cpu__amx_pack_a(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t row);

#endif
