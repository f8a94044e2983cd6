/* Draws places in sequences and rotations by them; see draw.c. */
#include "tests/conform/draw_sizes.h"

void draw_position(dice_t *d, op_case_t *c)
{
  ct_shape_t y = ct_shape(2, draw_batch(d), draw_size(d)), x = y;
  if (dice_is(d, 30)) x = ct_shape(3, y.dim[0], y.dim[1], draw_size(d));
  draw_start(c, CT_OP_POSITION, x, y);
  c->desc.u.position.relative = x.ndim == 2 && dice_is(d, 50);
}

void draw_rope(dice_t *d, op_case_t *c)
{
  int heads = (int)dice_throw(d, 1, 4), dim = 2 * (int)dice_throw(d, 1, 20);
  ct_shape_t x = draw_sequence(d);
  x.dim[2] = heads * dim + (dice_is(d, 30) ? dice_throw(d, 1, 9) : 0);
  draw_start(c, CT_OP_ROPE, x, x);
  c->desc.u.rope = (ct_rope_t){.heads = heads,
                               .dim = dim,
                               .interleaved = dice_is(d, 50),
                               .scaling = (int)dice_throw(d, 0, CT_ROPE_SCALINGS - 1),
                               .theta = 1e4,
                               .factor = (double)dice_throw(d, 1, 8),
                               .low = 1,
                               .high = 4,
                               .original = 32};
  if (dice_is(d, 40)) c->desc.x2 = ct_shape(2, x.dim[0], x.dim[1]);
}
