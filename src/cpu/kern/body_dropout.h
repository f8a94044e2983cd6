/** \file kern/body_dropout.h  Inner loops of dropout.  Module-internal. */
#include "cpu/kern/vec.h"

/* Blocks of factors computed at a time. */
#define DROP_BLOCKS 64

/* ct_dropout_factors() for blocks from `first` on.  Philox4x32-10 as in ct_rng_block(), in a loop
 * without calls and branches, which the compiler vectorizes: an unpredictable branch per element
 * would cost ten times as much. */
static void drop_factors(const ct_dropout_t *d, int64_t position, int64_t first, int64_t blocks,
                         float *restrict out)
{
  const uint32_t seed[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
  const uint32_t layer = d->layer, drop = d->drop;
  const float factor = d->factor;

#pragma omp simd
  for (int64_t b = 0; b < blocks; b++) {
    uint64_t index = (uint64_t)position << 32 | (uint64_t)(first + b);
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), layer, CT_RNG_DROPOUT};
    uint32_t key[2] = {seed[0], seed[1]};
    for (int round = 0; round < 10; round++) {
      uint64_t p0 = 0xd2511f53u * (uint64_t)c[0], p1 = 0xcd9e8d57u * (uint64_t)c[2];
      c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ key[0];
      c[1] = (uint32_t)p1;
      c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ key[1];
      c[3] = (uint32_t)p0;
      key[0] += 0x9e3779b9u;
      key[1] += 0xbb67ae85u;
    }
    for (int k = 0; k < 4; k++)
      out[4 * b + k] = c[k] >> 8 >= drop ? factor : 0;
  }
}

INLINE void drop_step(const float *factors, const void *in, void *out, int64_t i, int n)
{
  vec_t f = load(factors + i, n);
  put(out, i, keep(f != 0, get(in, i, n) * f), n, 0);
}

/* Contiguous elements. */
static void drop_side_by_side(const float *factors, int64_t count, const void *in, void *out)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    drop_step(factors, in, out, i, CPU__VW);
  if (i < count) drop_step(factors, in, out, i, (int)(count - i));
}

static void drop(const ct_dropout_t *d, int64_t position, int64_t first, int64_t count,
                 int64_t step, const void *from, void *to)
{
  const elem_t *in = from;
  elem_t *out = to;
  float factors[DROP_BLOCKS * CT_DROPOUT_BLOCK];

  while (count > 0) {
    int64_t skip = first % CT_DROPOUT_BLOCK, n = DROP_BLOCKS * CT_DROPOUT_BLOCK - skip;
    if (n > count) n = count;
    drop_factors(d, position, first / CT_DROPOUT_BLOCK,
                 (skip + n + CT_DROPOUT_BLOCK - 1) / CT_DROPOUT_BLOCK, factors);
    if (step == 1) {
      drop_side_by_side(factors + skip, n, in, out);
    } else {
      for (int64_t i = 0; i < n; i++)
        put_one(out, i * step,
                factors[skip + i] == 0 ? 0 : get_one(in, i * step) * factors[skip + i]);
    }
    in += n * step;
    out += n * step;
    first += n;
    count -= n;
  }
}
