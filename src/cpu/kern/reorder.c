/* Changes layout, type (cast) or shape (flatten).  For a change of shape one side must be plain;
 * the other side's plain layout then has the same order of elements. */
#include <stdio.h>
#include <string.h>

#include "base/ct_int.h"
#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* Pixels moved at a time: with 16 channels both sides fit the L1 cache. */
#define STRIP 64

typedef struct reorder {
  ct_op_t op;
  cpu__view_t x, y;
  int same_order; /* 1: same element order on both sides */
} reorder_t;

/* One side of a move. */
typedef struct side {
  const cpu__view_t *v;
  ct_dtype_t dtype;
  void *at;
} side_t;

/* Copies elements with stride `step` to elements with stride `to_step`. */
#define MOVE(name, from_t, to_t, convert)                                                     \
  static void name(int64_t count, const from_t *in, int64_t step, to_t *out, int64_t to_step) \
  {                                                                                           \
    for (int64_t i = 0; i < count; i++)                                                       \
      out[i * to_step] = convert(in[i * step]);                                               \
  }
MOVE(move_float, float, float, )
MOVE(move_bf16, uint16_t, uint16_t, )
MOVE(widen, uint16_t, float, ct_bf16_float)
MOVE(narrow, float, uint16_t, ct_bf16_of)
#undef MOVE

static void move_pixels(int64_t count, const side_t *from, int64_t i, const side_t *to, int64_t o)
{
  const void *in = cpu__at(from->at, i, from->dtype);
  void *out = cpu__at(to->at, o, to->dtype);
  int64_t step = from->v->lanes, to_step = to->v->lanes;

  if (from->dtype == CT_F32 && to->dtype == CT_F32) {
    move_float(count, in, step, out, to_step);
  } else if (from->dtype == CT_F32) {
    narrow(count, in, step, out, to_step);
  } else if (to->dtype == CT_F32) {
    widen(count, in, step, out, to_step);
  } else {
    move_bf16(count, in, step, out, to_step);
  }
}

static void clear_pixels(int64_t count, const side_t *to, int64_t o)
{
  for (int64_t i = 0; i < count; i++)
    memset(cpu__at(to->at, o + i * to->v->lanes, to->dtype), 0, ct_dtype_size(to->dtype));
}

/* Moves channels [c, end) of one image; channels beyond the last are padding of `to`. */
static void move_channels(const side_t *from, const side_t *to, int64_t image, int64_t c,
                          int64_t end)
{
  for (int64_t strip = 0; strip < to->v->inner; strip += STRIP) {
    int64_t count = ct_least(STRIP, to->v->inner - strip);
    for (int64_t k = c; k < end; k++) {
      int64_t o = cpu__pixels(to->v, image, k) + strip * to->v->lanes;
      if (k < to->v->c) {
        move_pixels(count, from, cpu__pixels(from->v, image, k) + strip * from->v->lanes, to, o);
      } else {
        clear_pixels(count, to, o);
      }
    }
  }
}

static void reorder_move(const side_t *from, const side_t *to)
{
  const cpu__view_t *v = to->v;
  int64_t channels = v->groups * v->lanes, blocks = (channels + 15) / 16;

#pragma omp parallel for collapse(2) if (v->n * channels * v->inner > CPU__PARALLEL_MIN)
  for (int64_t image = 0; image < v->n; image++) {
    for (int64_t b = 0; b < blocks; b++)
      move_channels(from, to, image, b * 16, ct_least(b * 16 + 16, channels));
  }
}

/* Converts the type; the layout stays. */
static void cast(const ct_op_t *op, const side_t *from, const side_t *to)
{
  int64_t count = ct_shape_padded(&op->desc.x);

  if (to->dtype == CT_F32) {
    cpu__to_floats(op->dev, count, from->at, to->at);
  } else {
    cpu__from_floats(op->dev, count, from->at, to->at, 0);
  }
}

static void carry(const reorder_t *k, const side_t *from, const side_t *to)
{
  if (from->dtype != to->dtype && k->same_order) {
    cast(&k->op, from, to);
  } else if (from->at != to->at) {
    reorder_move(from, to);
  }
}

static side_t side(const cpu__view_t *v, const ct_shape_t *s, const void *at)
{
  return (side_t){v, s->dtype, (void *)(uintptr_t)at};
}

static int reorder_run(ct_op_t *op, const ct_op_args_t *a)
{
  const reorder_t *k = (const reorder_t *)op;
  const ct_op_desc_t *d = &op->desc;

  if (a->pass & CT_FWD) {
    side_t x = side(&k->x, &d->x, a->x), y = side(&k->y, &d->y, a->y);
    carry(k, &x, &y);
  }
  if (a->pass & CT_BWD_DATA) {
    side_t dy = side(&k->y, &d->y, a->dy), dx = side(&k->x, &d->x, a->dx);
    carry(k, &dy, &dx);
  }
  return CT_OK;
}

static int reorder_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (ct_shape_same(&d->x, &d->y) || cpu__is_plain(&d->x) || cpu__is_plain(&d->y)) return 1;
  snprintf(why, 128, "with other dims, input or output must be plain");
  return 0;
}

/* Prepares a reorder.  A plain tensor is viewed with the dims of the other tensor; if both are
 * plain, a sample is viewed as one channel. */
static int reorder_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  reorder_t *k = (reorder_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_shape_t x = d->x, y = d->y;

  (void)like;
  if (cpu__is_plain(&x) && cpu__is_plain(&y)) {
    x = y = ct_shape(3, x.dim[0], (int64_t)1, ct_shape_sample(&x));
  } else if (cpu__is_plain(&x)) {
    x = y;
    x.layout = CT_PLAIN;
  } else if (cpu__is_plain(&y)) {
    y = x;
    y.layout = CT_PLAIN;
  }
  k->x = cpu__view(&x);
  k->y = cpu__view(&y);
  k->same_order = x.layout == y.layout;
  info->inplace_fwd = info->inplace_bwd =
      cpu__is_plain(&d->x) && cpu__is_plain(&d->y) && d->x.dtype == d->y.dtype;
  return CT_OK;
}

const cpu__op_kind_t cpu__reorder = {.size = sizeof(reorder_t),
                                     .bf16 = 1,
                                     .supports = reorder_supports,
                                     .prepare = reorder_prepare,
                                     .run = reorder_run};
