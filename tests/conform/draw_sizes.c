/* Random numbers and sizes of drawn cases. */
#include "tests/conform/draw_sizes.h"

#include <math.h>

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

void sdpa_with_heads(op_case_t *out, const sdpa_row_t *r)
{
  int kv = r->kv ? r->kv : r->heads, wide = r->packed == 1 ? r->heads + 2 * kv : r->heads;
  int s_len = r->packed == 1 ? r->t : r->s, e = r->packed ? r->d : r->e;
  ct_shape_t q = ct_shape(3, r->n, r->t, wide * r->d), y = ct_shape(3, r->n, r->t, r->heads * e);
  ct_shape_t k = ct_shape(3, r->n, s_len, (r->packed == 2 ? 2 : 1) * kv * r->d);
  ct_shape_t v = ct_shape(3, r->n, s_len, kv * e);
  ct_shape_t flags = ct_shape(2, r->n, r->mask == CT_MASK_FIRST ? r->t : s_len);
  ct_shape_t bias = ct_shape(4, r->bias & 1 ? 1 : r->n, r->bias & 2 ? 1 : r->heads, r->t, s_len);
  ct_shape_t mask = r->mask == CT_MASK_BIAS ? bias : flags;
  if (r->mask == CT_MASK_BIAS && r->bias == 3) mask = ct_shape(2, r->t, s_len);
  if (r->mask == CT_MASK_BIAS && r->bias == 1) mask = ct_shape(3, r->heads, r->t, s_len);
  draw_start(out, CT_OP_SDPA, q, y);
  if (r->packed != 1) out->desc.x2 = k;
  if (r->packed == 0) out->desc.x3 = v;
  if (r->mask) *(r->packed == 1 ? &out->desc.x2 : &out->desc.x3) = mask;
  out->desc.u.sdpa.heads = r->heads;
  out->desc.u.sdpa.kv_heads = r->kv;
  out->desc.u.sdpa.packed = r->packed;
  out->desc.u.sdpa.mask = r->mask;
  out->desc.u.sdpa.causal = r->causal;
  out->desc.u.sdpa.cached = r->cached;
  out->desc.u.sdpa.scale = 1 / sqrt(r->d);
}
