/** \file kern/body_dropout.h  Inner loops of dropout.  Module-internal. */
#include "cpu/kern/vec.h"

/* Blocks of factors computed at a time. */
#define DROP_BLOCKS 64

/* Computes ct_dropout_factors() for `blocks` blocks from `first` on, vectorized: an unpredictable
 * branch per element would cost ten times as much. */
static void drop_factors(const ct_dropout_t *d, int64_t position, int64_t first, int64_t blocks,
                         float *restrict out)
{
  const ct_dropout_t rule = *d;

#pragma omp simd
  for (int64_t b = 0; b < blocks; b++)
    ct_dropout_factors(&rule, position, first + b, out + CT_DROPOUT_BLOCK * b);
}

INLINE void drop_step(const float *factors, const void *in, void *out, int64_t i, int n)
{
  vec_t f = load(factors + i, n);
  put(out, i, keep(f != 0, get(in, i, n) * f), n, 0);
}

/* Multiplies contiguous elements by their factors. */
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

static void scale(float factor, int64_t count, const void *in, void *out)
{
  int64_t i = 0, end = whole(count);
  mask_t kept = splat(factor) != 0;

  for (; i < end; i += CPU__VW)
    put(out, i, keep(kept, get(in, i, CPU__VW) * factor), CPU__VW, 0);
  if (i < count)
    put(out, i, keep(kept, get(in, i, (int)(count - i)) * factor), (int)(count - i), 0);
}
