/* Random numbers and sizes of drawn cases. */
#include "tests/conform/draw_sizes.h"

#include "base/ct_rng.h"

int64_t dice_throw(dice_t *d, int64_t lo, int64_t hi)
{
  uint64_t v = ct_rng_u64(d->seed, CT_RNG_TEST, 1000 + d->thrown++, d->index);
  return lo + (int64_t)(v % (uint64_t)(hi - lo + 1));
}

int dice_is(dice_t *d, int percent)
{
  return dice_throw(d, 0, 99) < percent;
}

int64_t draw_batch(dice_t *d)
{
  static const int64_t sizes[] = {1, 1, 1, 2, 2, 3, 4, 5, 7, 9, 17};
  return dice_is(d, 3) ? 0 : sizes[dice_throw(d, 0, 10)];
}

/* Sizes around the borders of vectors and blocks. */
int64_t draw_channels(dice_t *d)
{
  static const int64_t sizes[] = {1,  1,  2,  3,  4,  5,  6,  7,  8,  9,  12,
                                  15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 65};
  return sizes[dice_throw(d, 0, 21)];
}

int64_t draw_size(dice_t *d)
{
  return dice_is(d, 60)   ? dice_throw(d, 1, 6)
         : dice_is(d, 90) ? dice_throw(d, 1, 14)
                          : dice_throw(d, 1, 40);
}

ct_shape_t draw_image(dice_t *d)
{
  ct_shape_t s = ct_shape(dice_is(d, 65) ? 4 : 5, draw_batch(d), draw_channels(d), 1, 1, 1);
  for (int i = 2; i < s.ndim; i++)
    s.dim[i] = draw_size(d);
  return s;
}

ct_shape_t draw_any(dice_t *d)
{
  if (dice_is(d, 70)) return draw_image(d);
  ct_shape_t s = ct_shape(dice_is(d, 60) ? 2 : 3, draw_batch(d), draw_channels(d), draw_size(d));
  return s;
}

ct_shape_t draw_sequence(dice_t *d)
{
  return ct_shape(3, draw_batch(d), draw_size(d), draw_channels(d));
}

void draw_start(op_case_t *c, ct_op_kind_t kind, ct_shape_t x, ct_shape_t y)
{
  ct_op_desc_init(&c->desc, kind, &x, &y);
  c->data = DATA_RANDOM;
  c->big = 0;
}
