/* Quantization, dequantization, and changes of the layout or shape of uint8 tensors. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/int8/int8.h"

/* Pixels moved at a time. */
#define STRIP 64

typedef struct reorder {
  ct_op_t op;
  cpu__view_t x, y;
  int same_order; /* 1: same element order on both sides */
} reorder_t;

static int reorder_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  const char *reason = NULL;
  int x = d->x.dtype == CT_U8, y = d->y.dtype == CT_U8;
  if ((x && cpu__lanes(d->x.layout) > 1) || (y && cpu__lanes(d->y.layout) > 1))
    reason = "int8 has no layout in blocks of channels";
  else if (x && y && (d->q.x.scale != d->q.y.scale || d->q.x.zero != d->q.y.zero))
    reason = "a reorder keeps scale and zero point";
  else if (!ct_shape_same(&d->x, &d->y) && !cpu__is_plain(&d->x) && !cpu__is_plain(&d->y))
    reason = "with other dims one side is plain";
  if (reason) snprintf(why, 128, "%s", reason);
  return reason == NULL;
}

static int reorder_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  reorder_t *k = (reorder_t *)op;
  ct_shape_t x = op->desc.x, y = op->desc.y;
  (void)like;
  (void)info;
  if (cpu__is_plain(&x)) x.layout = CT_PLAIN;
  if (cpu__is_plain(&y)) y.layout = CT_PLAIN;
  if (!ct_shape_same(&x, &y)) { /* the plain side takes the dims of the other */
    ct_shape_t *plain = x.layout == CT_PLAIN ? &x : &y, other = plain == &x ? y : x;
    other.dtype = plain->dtype;
    other.layout = CT_PLAIN;
    *plain = other;
  }
  k->x = cpu__view(&x);
  k->y = cpu__view(&y);
  k->same_order = x.layout == y.layout && (x.layout == CT_PLAIN || ct_shape_same(&x, &y));
  return CT_OK;
}

static void to_bytes(const ct_quant_params_t *p, int64_t n, const float *x, int64_t step,
                     uint8_t *y, int64_t to_step)
{
  float scale = p->scale, zero = (float)p->zero;
  for (int64_t i = 0; i < n; i++) {
    float v = x[i * step] / scale; /* rounds before the zero point is added */
    v = v > -zero ? v : -zero;
    v = v < 255 - zero ? v : 255 - zero;
    y[i * to_step] = (uint8_t)(int)(v + CPU__ROUNDER - CPU__ROUNDER + zero);
  }
}

static void to_floats(const ct_quant_params_t *p, int64_t n, const uint8_t *x, int64_t step,
                      float *y, int64_t to_step)
{
  for (int64_t i = 0; i < n; i++)
    y[i * to_step] = p->scale * (float)(x[i * step] - p->zero);
}

static void reorder_move(int64_t n, const uint8_t *x, int64_t step, uint8_t *y, int64_t to_step)
{
  for (int64_t i = 0; i < n; i++)
    y[i * to_step] = x[i * step];
}

static void reorder_convert(const reorder_t *k, const ct_op_args_t *a, int64_t n, int64_t from,
                            int64_t step, int64_t to, int64_t to_step)
{
  const ct_op_desc_t *d = &k->op.desc;
  const uint8_t *bytes = (const uint8_t *)a->x + from;
  if (d->x.dtype != CT_U8)
    to_bytes(&d->q.y, n, (const float *)a->x + from, step, (uint8_t *)a->y + to, to_step);
  else if (d->y.dtype != CT_U8)
    to_floats(&d->q.x, n, bytes, step, (float *)a->y + to, to_step);
  else
    reorder_move(n, bytes, step, (uint8_t *)a->y + to, to_step);
}

static void move_strip(const reorder_t *k, const ct_op_args_t *a, int64_t image, int64_t first)
{
  int64_t n = ct_least(STRIP, k->x.inner - first);
  for (int64_t c = 0; c < k->x.c; c++)
    reorder_convert(k, a, n, cpu__pixels(&k->x, image, c) + first * k->x.lanes, k->x.lanes,
                    cpu__pixels(&k->y, image, c) + first * k->y.lanes, k->y.lanes);
}

static int reorder_run(ct_op_t *op, const ct_op_args_t *a)
{
  const reorder_t *k = (const reorder_t *)op;
  int64_t all = ct_shape_padded(&op->desc.x), strips = (k->x.inner + STRIP - 1) / STRIP;
  int parallel = all > CPU__PARALLEL_MIN;
  if (k->same_order) {
#pragma omp parallel for if (parallel)
    for (int64_t i = 0; i < all; i += 4096)
      reorder_convert(k, a, ct_least(4096, all - i), i, 1, i, 1);
    return CT_OK;
  }
  if (k->y.c % k->y.lanes) memset(a->y, 0, ct_shape_bytes(&op->desc.y)); /* padded channels */
#pragma omp parallel for collapse(2) if (parallel)
  for (int64_t image = 0; image < k->x.n; image++)
    for (int64_t s = 0; s < strips; s++)
      move_strip(k, a, image, s * STRIP);
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_reorder = {.size = sizeof(reorder_t),
                                          .supports = reorder_supports,
                                          .prepare = reorder_prepare,
                                          .run = reorder_run};
