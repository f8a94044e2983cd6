/* Changes layout, type (cast) or shape (flatten).  For a change of shape one side must be plain;
 * the other side's plain layout then has the same order of elements. */
#include <stdio.h>
#include <string.h>

#include "base/ct_int.h"
#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* A task moves a strip of pixels of some channels: both sides fit the L1 cache. */
#define STRIP    64
#define CHANNELS 64

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

/* A strip of pixels of one image. */
typedef struct strip {
  int64_t image, first, count;
} strip_t;

/* Returns the offset of a strip's first pixel of channel c. */
static int64_t reorder_at(const cpu__view_t *v, strip_t s, int64_t c)
{
  return cpu__pixels(v, s.image, c) + s.first * v->lanes;
}

/* Moves channels [c, end) one by one; channels beyond the last are padding of `to`. */
static void move_channels(const side_t *from, const side_t *to, strip_t s, int64_t c, int64_t end)
{
  for (int64_t k = c; k < end; k++) {
    int64_t o = reorder_at(to->v, s, k);
    if (k < to->v->c) {
      move_pixels(s.count, from, reorder_at(from->v, s, k), to, o);
    } else {
      clear_pixels(s.count, to, o);
    }
  }
}

/* Copies runs of `bytes` bytes, a constant. */
static inline void copy_runs(int64_t count, const char *in, int64_t step, char *out,
                             int64_t to_step, size_t bytes)
{
  for (int64_t i = 0; i < count; i++)
    memcpy(out + i * to_step, in + i * step, bytes);
}

/* Moves a run of channels, which are adjacent on both sides, from c on. */
static void move_run(const side_t *from, const side_t *to, strip_t s, int64_t c, int64_t run)
{
  const char *in = cpu__at(from->at, reorder_at(from->v, s, c), from->dtype);
  char *out = cpu__at(to->at, reorder_at(to->v, s, c), to->dtype);
  int64_t size = (int64_t)ct_dtype_size(to->dtype);
  int64_t step = from->v->lanes * size, to_step = to->v->lanes * size;

  switch (run * size) {
  case 16:
    copy_runs(s.count, in, step, out, to_step, 16);
    return;
  case 32:
    copy_runs(s.count, in, step, out, to_step, 32);
    return;
  default:
    copy_runs(s.count, in, step, out, to_step, 64);
  }
}

/* Returns the number of channels that are adjacent on both sides and move without conversion; 0:
 * fewer than a block. */
static int64_t run_of(const side_t *from, const side_t *to)
{
  int64_t lanes = ct_least(from->v->lanes, to->v->lanes);
  return from->dtype != to->dtype || lanes < 8 ? 0 : lanes < 16 ? 8 : 16;
}

static void move_strip(const side_t *from, const side_t *to, strip_t s, int64_t c, int64_t end)
{
  int64_t run = run_of(from, to);

  for (; run && c + run <= ct_least(end, to->v->c); c += run)
    move_run(from, to, s, c, run);
  move_channels(from, to, s, c, end);
}

static void reorder_move(const side_t *from, const side_t *to)
{
  const cpu__view_t *v = to->v;
  int64_t channels = v->groups * v->lanes, groups = (channels + CHANNELS - 1) / CHANNELS;
  int64_t strips = (v->inner + STRIP - 1) / STRIP;

#pragma omp parallel for collapse(3) if (v->n * channels * v->inner > CPU__PARALLEL_MIN)
  for (int64_t image = 0; image < v->n; image++) {
    for (int64_t i = 0; i < strips; i++) {
      for (int64_t g = 0; g < groups; g++) {
        strip_t s = {image, i * STRIP, ct_least(STRIP, v->inner - i * STRIP)};
        move_strip(from, to, s, g * CHANNELS, ct_least((g + 1) * CHANNELS, channels));
      }
    }
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
