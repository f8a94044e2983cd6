/* Another layout, or other dims (flatten).  With other dims one of the sides is plain, and then
 * it is the other side's plain layout too. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern_loops.h"

/* Pixels moved at a time: with 16 channels both sides fit the first cache. */
#define STRIP 64

typedef struct reorder {
  ct_op_t op;
  cpu__view_t x, y;
} reorder_t;

static int is_plain(const ct_shape_t *s)
{
  return s->layout == CT_PLAIN || (s->layout == CT_NHWC && cpu__view(s).inner == 1);
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Where pixel 0 of channel c of an image lies. */
static int64_t place(const cpu__view_t *v, int64_t image, int64_t c)
{
  return (image * v->groups + c / v->lanes) * v->inner * v->lanes + c % v->lanes;
}

/* Channels [c, end) of one image; those beyond the last are the padding of `to`. */
static void move_channels(const cpu__view_t *from, const float *in, const cpu__view_t *to,
                          float *out, int64_t image, int64_t c, int64_t end)
{
  for (int64_t strip = 0; strip < to->inner; strip += STRIP) {
    int64_t count = least(STRIP, to->inner - strip);
    for (int64_t k = c; k < end; k++) {
      float *o = out + place(to, image, k) + strip * to->lanes;
      const float *p = k < to->c ? in + place(from, image, k) + strip * from->lanes : NULL;
      for (int64_t i = 0; i < count; i++)
        o[i * to->lanes] = p ? p[i * from->lanes] : 0;
    }
  }
}

static void move(const cpu__view_t *from, const float *in, const cpu__view_t *to, float *out)
{
  int64_t channels = to->groups * to->lanes, blocks = (channels + 15) / 16;

#pragma omp parallel for collapse(2) if (to->n * channels * to->inner > CPU__PARALLEL_MIN)
  for (int64_t image = 0; image < to->n; image++) {
    for (int64_t b = 0; b < blocks; b++)
      move_channels(from, in, to, out, image, b * 16, least(b * 16 + 16, channels));
  }
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const reorder_t *k = (const reorder_t *)op;

  if ((a->pass & CT_FWD) && a->x != a->y) move(&k->x, a->x, &k->y, a->y);
  if ((a->pass & CT_BWD_DATA) && a->dy != a->dx) move(&k->y, a->dy, &k->x, a->dx);
  return CT_OK;
}

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const char *reason = NULL;

  (void)dev;
  if (ct_shape_count(&d->x) != ct_shape_count(&d->y))
    reason = "input and output differ in their number of elements";
  if (d->x.dim[0] != d->y.dim[0]) reason = "input and output differ in batch size";
  if (!ct_shape_same(&d->x, &d->y) && !is_plain(&d->x) && !is_plain(&d->y))
    reason = "with other dims, input or output must be plain";
  snprintf(why, 128, "%s", reason ? reason : "");
  return reason == NULL;
}

/* A plain side takes the dims of the other; if both are plain, a sample is one channel. */
static int prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  reorder_t *k = (reorder_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_shape_t x = d->x, y = d->y;

  (void)like;
  if (is_plain(&x) && is_plain(&y)) {
    x = y = ct_shape(3, x.dim[0], (int64_t)1, ct_shape_sample(&x));
  } else if (is_plain(&x)) {
    x = y;
    x.layout = CT_PLAIN;
  } else if (is_plain(&y)) {
    y = x;
    y.layout = CT_PLAIN;
  }
  k->x = cpu__view(&x);
  k->y = cpu__view(&y);
  info->y_layout = d->y.layout;
  info->inplace_fwd = info->inplace_bwd = is_plain(&d->x) && is_plain(&d->y);
  return CT_OK;
}

const cpu__op_kind_t cpu__reorder = {
    .size = sizeof(reorder_t), .supports = supports, .prepare = prepare, .run = run};
