/* random_crop, center_crop and random_flip, which move pixels without changing their values. */
#include <math.h>
#include <string.h>

#include "base/ct_int.h"
#include "base/ct_err.h"
#include "data/transform/transforms.h"

void ct__image_crop(const float *x, ct__image_size_t in, int64_t top, int64_t left, float *y,
                    ct__image_size_t out)
{
  /* columns from..to-1 of the window lie within the image */
  int64_t from = ct_least(left < 0 ? -left : 0, out.w), to = ct_least(in.w - left, out.w);
  if (to < from) to = from;
  for (int64_t c = 0; c < in.c; c++, x += in.h * in.w) {
    for (int64_t i = 0; i < out.h; i++, y += out.w) {
      int64_t row = top + i;
      if (row < 0 || row >= in.h) {
        memset(y, 0, (size_t)out.w * sizeof *y);
        continue;
      }
      memset(y, 0, (size_t)from * sizeof *y);
      if (to > from)
        memcpy(y + from, x + row * in.w + left + from, (size_t)(to - from) * sizeof *y);
      memset(y + to, 0, (size_t)(out.w - to) * sizeof *y);
    }
  }
}

/* ---- random_crop ---- */

typedef struct crop {
  int64_t size[2];
  ct_opt_doubles_t padding;
  int64_t pad[4]; /* left, top, right, bottom */
} crop_t;
static const ct_opt_t crop_rows[] = {
    CT_OPT_PAIR(crop_t, size, "0", 0, 1e6,
                "size of the window: one number or [h, w]; 0: the size of the sample"),
    {"padding", CT_OPT_T_DOUBLES, offsetof(crop_t, padding), "0", 0, 1e6, 0,
     "zeros around the sample: one number for all sides, [left-right, top-bottom] or [left, top, "
     "right, bottom]"},
    CT_OPT_END};

static int read_padding(crop_t *o, const ct__transform_location_t *at)
{
  int rc = CT_OK, n = o->padding.n;
  int64_t p[4];
  if (n != 1 && n != 2 && n != 4)
    return ct__transform_refuse(at, "padding has %d numbers, not 1, 2 or 4", n);
  CT_TRY(ct__transform_whole(at, "padding", &o->padding, p));
  for (int i = 0; i < 4; i++)
    o->pad[i] = p[i % n];
out:
  return rc;
}

/* Computes height and width of the padded sample. */
static void pad(const ct__transform_t *s, int64_t padded[2])
{
  const crop_t *o = s->o;
  padded[0] = s->in.dim[2] + o->pad[1] + o->pad[3];
  padded[1] = s->in.dim[3] + o->pad[0] + o->pad[2];
}

static int fit_crop(ct__transform_t *s)
{
  const crop_t *o = s->o;
  int64_t padded[2];
  pad(s, padded);
  for (int i = 0; o->size[0] > 0 && i < 2; i++)
    s->out.dim[2 + i] = o->size[i];
  return s->out.dim[2] <= padded[0] && s->out.dim[3] <= padded[1];
}

static int plan_crop(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  crop_t *o = s->o;
  int64_t padded[2];
  CT_TRY(read_padding(o, at));
  pad(s, padded);
  if ((o->size[0] == 0) != (o->size[1] == 0))
    return ct__transform_refuse(at, "size is 0 in one direction only");
  if (!fit_crop(s))
    return ct__transform_refuse(
        at, "size %lldx%lld is larger than the padded sample, which is %lldx%lld",
        (long long)s->out.dim[2], (long long)s->out.dim[3], (long long)padded[0],
        (long long)padded[1]);
out:
  return rc;
}

static void random_crop(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                        float *scratch)
{
  const crop_t *o = s->o;
  ct__image_size_t from = ct__image_size(&s->in), to = ct__image_size(&s->out);
  int64_t top = ct__draw_below(d, from.h + o->pad[1] + o->pad[3] - to.h + 1);
  int64_t left = ct__draw_below(d, from.w + o->pad[0] + o->pad[2] - to.w + 1);
  (void)scratch;
  ct__image_crop(in, from, top - o->pad[1], left - o->pad[0], out, to);
}

static int is_within(const ct__transform_t *s)
{
  const crop_t *o = s->o;
  return !(o->pad[0] || o->pad[1] || o->pad[2] || o->pad[3]);
}

static void view_window(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v)
{
  v->window.h = s->out.dim[2];
  v->window.w = s->out.dim[3];
  v->window.top += ct__draw_below(d, s->in.dim[2] - v->window.h + 1);
  v->window.left += ct__draw_below(d, s->in.dim[3] - v->window.w + 1);
}

const ct__transform_kind_t ct__transform_random_crop = {
    .name = "random_crop",
    .help = "a random window of the zero-padded sample",
    .flags = CT__TRANSFORM_RANDOM,
    .size = sizeof(crop_t),
    .rows = crop_rows,
    .plan = plan_crop,
    .fit = fit_crop,
    .apply = random_crop,
    .view = view_window,
    .within = is_within};

/* ---- center_crop ---- */

typedef struct center {
  int64_t size[2];
} center_t;
static const ct_opt_t center_rows[] = {
    CT_OPT_PAIR(center_t, size, NULL, 1, 1e6, "size of the window: one number or [h, w]"),
    CT_OPT_END};

static int fit_center(ct__transform_t *s)
{
  const center_t *o = s->o;
  s->out.dim[2] = o->size[0];
  s->out.dim[3] = o->size[1];
  return 1;
}

/* Returns the offset of the center crop: half of the excess, rounded to even; if the sample is
 * padded, the smaller half comes first. */
static int64_t middle(int64_t in, int64_t out)
{
  return out > in ? -((out - in) / 2) : (int64_t)nearbyint((double)(in - out) / 2);
}

void ct__image_center(ct__image_size_t in, ct__image_size_t out, int64_t *top, int64_t *left)
{
  *top = middle(in.h, out.h);
  *left = middle(in.w, out.w);
}

static void center_crop(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                        float *scratch)
{
  int64_t top, left;
  (void)d;
  (void)scratch;
  ct__image_center(ct__image_size(&s->in), ct__image_size(&s->out), &top, &left);
  ct__image_crop(in, ct__image_size(&s->in), top, left, out, ct__image_size(&s->out));
}

static int is_smaller(const ct__transform_t *s)
{
  return s->out.dim[2] <= s->in.dim[2] && s->out.dim[3] <= s->in.dim[3];
}

static void view_middle(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v)
{
  int64_t top, left;
  (void)d;
  ct__image_center(ct__image_size(&s->in), ct__image_size(&s->out), &top, &left);
  v->window =
      (ct__image_box_t){v->window.top + top, v->window.left + left, s->out.dim[2], s->out.dim[3]};
}

const ct__transform_kind_t ct__transform_center_crop = {
    .name = "center_crop",
    .help = "the center, zero-padded if the sample is too small",
    .size = sizeof(center_t),
    .rows = center_rows,
    .fit = fit_center,
    .apply = center_crop,
    .view = view_middle,
    .within = is_smaller};

/* ---- random_flip ---- */

typedef struct flip {
  double p;
} flip_t;
static const ct_opt_t flip_rows[] = {CT_OPT_DOUBLE(flip_t, p, "0.5", 0, 1, "probability"),
                                     CT_OPT_END};

void ct__image_flip(float *x, ct__image_size_t s)
{
  for (int64_t row = 0; row < s.c * s.h; row++, x += s.w) {
    for (int64_t i = 0; i < s.w / 2; i++) {
      float left = x[i];
      x[i] = x[s.w - 1 - i];
      x[s.w - 1 - i] = left;
    }
  }
}

static void random_flip(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                        float *scratch)
{
  const flip_t *o = s->o;
  (void)in;
  (void)scratch;
  if (ct__draw(d) < o->p) ct__image_flip(out, ct__image_size(&s->in));
}

static void view_mirrored(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v)
{
  const flip_t *o = s->o;
  v->flip = ct__draw(d) < o->p;
}

const ct__transform_kind_t ct__transform_random_flip = {
    .name = "random_flip",
    .help = "mirrors left to right",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_MIRRORS,
    .size = sizeof(flip_t),
    .rows = flip_rows,
    .apply = random_flip,
    .view = view_mirrored};
