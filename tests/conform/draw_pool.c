/* Pooling with random sizes, windows, strides and padding.  In half of the cases the windows tile
 * the input (apart from padding), since that case has loops of its own. */
#include "base/ct_rng.h"
#include "tests/conform/cases.h"

enum { DRAWS = 120, SEED = 3 };

/* Returns random number k of draw i, in 0 … below - 1. */
static int drawn(int i, int k, int below)
{
  return (int)(ct_rng_u64(SEED, CT_RNG_TEST, (uint32_t)k, (uint64_t)i) % (uint64_t)below);
}

/* Draws one axis; its window has at most `most` elements. */
static void draw_axis(int i, int axis, int most, op_case_t *c)
{
  int k = 10 + 10 * axis, kernel = 1 + drawn(i, k, most), pad = drawn(i, k + 1, kernel / 2 + 1);
  int stride = 1 + drawn(i, k + 2, 4), in = kernel + drawn(i, k + 3, 9);

  if (drawn(i, 1, 2)) {
    stride = kernel;
    in = kernel * (1 + drawn(i, k + 3, 4));
  }
  if (drawn(i, 2, 3) == 0) { /* the pooling window of a ResNet */
    kernel = 3;
    stride = 2;
    pad = 1;
  }
  c->desc.x.dim[2 + axis] = in;
  c->desc.y.dim[2 + axis] = ct_op_window_out(in, kernel, stride, pad, 1);
  c->desc.u.pool.kernel[axis] = kernel;
  c->desc.u.pool.stride[axis] = stride;
  c->desc.u.pool.pad[axis] = pad;
}

int case_drawn_pool(int i, op_case_t *out)
{
  int axes = drawn(i, 0, 4) ? 2 : 3, wide = axes == 2 && drawn(i, 3, 6) == 0;
  ct_shape_t x = {.ndim = 2 + axes, .dim = {1 + drawn(i, 4, 3), 1 + drawn(i, 5, 20)}};

  if (i >= DRAWS) return 0;
  *out = (op_case_t){.data = drawn(i, 6, 2) ? DATA_TIES : DATA_RANDOM};
  ct_op_desc_init(&out->desc, CT_OP_POOL, &x, &x);
  for (int axis = 0; axis < axes; axis++)
    draw_axis(i, axis, wide ? 24 : 5, out);
  out->desc.u.pool.average = drawn(i, 7, 3) == 0;
  out->desc.u.pool.include_pad = out->desc.u.pool.average && drawn(i, 8, 2);
  out->desc.u.pool.relu = !out->desc.u.pool.average && drawn(i, 8, 2);
  return 1;
}
