/* Draws convolutions with an activation and pooling (CONV_POOL); see draw.c.
 *
 * A maximum is the same on two backends only if the convolution has no rounding errors: the numbers
 * are halves, the weights -1, 0 and 1 (rig_data.c), the slopes powers of 2, and the window is none
 * of Winograd's.  Averages may have any activation. */
#include "tests/conform/draw_sizes.h"

static int draw_dim(dice_t *d, op_case_t *c, int i)
{
  ct_op_conv_t *conv = &c->desc.u.conv_pool.conv;
  ct_op_pool_t *pool = &c->desc.u.conv_pool.pool;
  conv->kernel[i] = (int)dice_throw(d, 1, 4);
  conv->stride[i] = (int)dice_throw(d, 1, dice_is(d, 30) ? 3 : 1);
  conv->dilate[i] = (int)dice_throw(d, 1, dice_is(d, 20) ? 2 : 1);
  conv->pad[i] = (int)dice_throw(d, 0, conv->kernel[i]);
  pool->kernel[i] = (int)dice_throw(d, 1, 3);
  pool->stride[i] = dice_is(d, 60) ? pool->kernel[i] : (int)dice_throw(d, 1, 3);
  pool->gap[i] = !pool->average && dice_is(d, 20);
  pool->pad[i] = i && !pool->gap[i] ? (int)dice_throw(d, 0, pool->kernel[i] / 2) : 0;
  int64_t in = c->desc.x.dim[2 + i];
  int64_t mid =
      ct_op_window_out(in, conv->kernel[i], conv->stride[i], conv->pad[i], conv->dilate[i]);
  if (mid < 1) return 0;
  c->desc.y.dim[2 + i] = ct_op_pool_out(mid, pool->kernel[i], pool->stride[i], pool->pad[i],
                                        1 + pool->gap[i], pool->ceil);
  return c->desc.y.dim[2 + i] > 0;
}

static void draw_activation(dice_t *d, ct_op_conv_pool_t *o)
{
  static const double slopes[] = {0, 0.25, 0.5};
  int kind = (int)dice_throw(d, 0, 3);
  if (kind == 1) o->conv.relu = 1;
  if (kind == 2) o->act = 1 + CT_ACT_LEAKY_RELU;
  if (kind == 3)
    o->act = 1 + (o->pool.average ? (int)dice_throw(d, 0, CT_ACT_COUNT - 1) : (int)CT_ACT_RELU6);
  if (kind == 0 && !o->pool.average) o->pool.relu = dice_is(d, 50);
  if (!o->act) return;
  int alpha = ct_act_facts_of((ct_act_t)(o->act - 1))->alpha;
  if (alpha == CT_ALPHA_SLOPE) o->alpha = slopes[dice_throw(d, 0, 2)];
  if (alpha == CT_ALPHA_FACTOR) o->alpha = 1.2;
}

int draw_conv_pool(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_image(d), y = x;
  x.dim[1] = dice_throw(d, 1, 20);
  y.dim[1] = dice_throw(d, 1, 40);
  for (int i = 2; i < x.ndim; i++)
    x.dim[i] = dice_throw(d, 2, x.ndim == 4 ? 24 : 12);
  draw_start(c, CT_OP_CONV_POOL, x, y);
  c->data = DATA_TIES;
  ct_op_conv_pool_t *o = &c->desc.u.conv_pool;
  o->pool.average = dice_is(d, 30);
  o->pool.include_pad = o->pool.average && dice_is(d, 50);
  o->pool.ceil = dice_is(d, 20);
  o->conv.groups = dice_is(d, 10) && x.dim[1] % 2 == 0 && y.dim[1] % 2 == 0 ? 2 : 1;
  o->conv.bias = dice_is(d, 70);
  for (int i = 0; i < x.ndim - 2; i++)
    if (!draw_dim(d, c, i)) return 0;
  if (x.ndim == 4 && !o->pool.average && o->conv.stride[0] == 1 && o->conv.stride[1] == 1 &&
      o->conv.kernel[0] == 3 && o->conv.kernel[1] == 3)
    return 0;
  draw_activation(d, o);
  o->rows = (int)dice_throw(d, 1, c->desc.y.dim[2]);
  return 1;
}
