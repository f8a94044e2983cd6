/* random_crop, center_crop and the flips, which move pixels without changing their values. */
#include <math.h>
#include <string.h>

#include "base/ct_int.h"
#include "base/ct_err.h"
#include "data/transform/transforms.h"

/* Fills pixels from..to-1 of a row that are outside the image; returns the address after them. */
static char *fill(ct__pixels_t p, char *row, int64_t from, int64_t to, const float *outside)
{
  size_t bytes = (size_t)(to - from) * p.bytes;
  if (!outside)
    memset(row, 0, bytes);
  else
    for (int64_t i = 0; i < to - from; i++)
      memcpy(row + (size_t)i * sizeof *outside, outside, sizeof *outside);
  return row + bytes;
}

void ct__image_crop(ct__pixels_t p, const void *x, ct__image_size_t in, int64_t top, int64_t left,
                    void *y, ct__image_size_t out, const ct_affine_t *map)
{
  /* columns from..to-1 of the window lie within the image */
  int64_t from = ct_least(left < 0 ? -left : 0, out.w), to = ct_least(in.w - left, out.w);
  char *now = y;
  if (to < from) to = from;
  for (int64_t c = 0; c < p.planes; c++) {
    const char *plane = (const char *)x + (size_t)(c * in.h * in.w) * p.bytes;
    int64_t k = map ? c % map->channels : 0;
    float value = map ? map->a[k] * 0.0F + map->b[k] : 0;
    const float *outside = map ? &value : NULL;
    for (int64_t row = top; row < top + out.h; row++) {
      int64_t begin = row < 0 || row >= in.h ? out.w : from, end = begin == from ? to : begin;
      now = fill(p, now, 0, begin, outside);
      size_t copied = (size_t)(end - begin) * p.bytes;
      if (copied) memcpy(now, plane + (size_t)(row * in.w + left + begin) * p.bytes, copied);
      now = fill(p, now + copied, end, out.w, outside);
    }
  }
}

/* Crops a sample, or an array that moves along with it, which is padded with \a target_fill. */
static void crop_sample(const ct__transform_t *s, ct__pixels_t p, const void *in, int64_t top,
                        int64_t left, double target_fill, void *out)
{
  const ct_affine_t fill = {.channels = 1, .b = {(float)target_fill}};
  ct__image_crop(p, in, ct__image_size(&s->in), top, left, out, ct__image_size(&s->out),
                 s->along ? &fill : s->map);
}

#define TARGET_FILL(T)                                                                       \
  CT_OPT_DOUBLE(T, target_fill, "0", -1e9, 1e9,                                              \
                "padding of masks and other arrays that move along, such as the class that " \
                "the loss ignores")

/* ---- random_crop ---- */

typedef struct crop {
  int64_t size[2];
  double target_fill;
  ct_opt_doubles_t padding;
  int64_t pad[4]; /* left, top, right, bottom */
} crop_t;
static const ct_opt_t crop_rows[] = {
    CT_OPT_PAIR(crop_t, size, "0", 0, 1e6,
                "size of the window: one number or [h, w]; 0: the size of the sample"),
    {"padding", CT_OPT_T_DOUBLES, offsetof(crop_t, padding), "0", 0, 1e6, 0,
     "zeros around the sample: one number for all sides, [left-right, top-bottom] or [left, top, "
     "right, bottom]"},
    TARGET_FILL(crop_t),
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

static void random_crop(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in,
                        void *out)
{
  const crop_t *o = s->o;
  ct__image_size_t from = ct__image_size(&s->in), to = ct__image_size(&s->out);
  int64_t top = ct__draw_below(d, from.h + o->pad[1] + o->pad[3] - to.h + 1);
  int64_t left = ct__draw_below(d, from.w + o->pad[0] + o->pad[2] - to.w + 1);
  crop_sample(s, p, in, top - o->pad[1], left - o->pad[0], o->target_fill, out);
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
    .move = random_crop,
    .view = view_window,
    .within = is_within};

/* ---- center_crop ---- */

typedef struct center {
  int64_t size[2];
  double target_fill;
} center_t;
static const ct_opt_t center_rows[] = {
    CT_OPT_PAIR(center_t, size, NULL, 1, 1e6, "size of the window: one number or [h, w]"),
    TARGET_FILL(center_t), CT_OPT_END};

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

static void center_crop(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in,
                        void *out)
{
  int64_t top, left;
  (void)d;
  ct__image_center(ct__image_size(&s->in), ct__image_size(&s->out), &top, &left);
  crop_sample(s, p, in, top, left, ((const center_t *)s->o)->target_fill, out);
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
    .move = center_crop,
    .view = view_middle,
    .within = is_smaller};

/* ---- random_flip ---- */

typedef struct flip {
  double p;
} flip_t;
static const ct_opt_t flip_rows[] = {CT_OPT_DOUBLE(flip_t, p, "0.5", 0, 1, "probability"),
                                     CT_OPT_END};

#define MIRROR(name, type)                \
  static void name(void *row, int64_t w)  \
  {                                       \
    type *x = row;                        \
    for (int64_t i = 0; i < w / 2; i++) { \
      type left = x[i];                   \
      x[i] = x[w - 1 - i];                \
      x[w - 1 - i] = left;                \
    }                                     \
  }
typedef struct rgb {
  uint8_t of[3];
} rgb_t;
typedef struct word {
  uint8_t of[4];
} word_t;
MIRROR(mirror_bytes, uint8_t)
MIRROR(mirror_rgb, rgb_t)
MIRROR(mirror_words, word_t)

static void mirror(void *row, int64_t w, size_t bytes)
{
  for (size_t i = 0; i < (size_t)w / 2; i++) {
    char *left = (char *)row + i * bytes, *right = (char *)row + ((size_t)w - 1 - i) * bytes;
    for (size_t k = 0; k < bytes; k++) {
      char byte = left[k];
      left[k] = right[k];
      right[k] = byte;
    }
  }
}

void ct__image_flip(ct__pixels_t p, void *x, ct__image_size_t s)
{
  char *row = x;
  for (int64_t i = 0; i < p.planes * s.h; i++, row += (size_t)s.w * p.bytes) {
    switch (p.bytes) {
    case sizeof(uint8_t):
      mirror_bytes(row, s.w);
      break;
    case sizeof(rgb_t):
      mirror_rgb(row, s.w);
      break;
    case sizeof(word_t):
      mirror_words(row, s.w);
      break;
    default:
      mirror(row, s.w, p.bytes);
    }
  }
}

static void random_flip(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p, const void *in,
                        void *out)
{
  const flip_t *o = s->o;
  (void)in;
  if (ct__draw(d) < o->p) ct__image_flip(p, out, ct__image_size(&s->in));
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
    .move = random_flip,
    .view = view_mirrored};

/* ---- random_vertical_flip ---- */

void ct__image_flip_vertical(ct__pixels_t p, void *x, ct__image_size_t s)
{
  size_t row = (size_t)s.w * p.bytes;
  char kept[256];
  for (int64_t i = 0; i < p.planes * (s.h / 2); i++) {
    char *plane = (char *)x + (size_t)(i / (s.h / 2) * s.h) * row;
    char *top = plane + (size_t)(i % (s.h / 2)) * row;
    char *bottom = plane + (size_t)(s.h - 1 - i % (s.h / 2)) * row;
    for (size_t at = 0, n; at < row; at += n) {
      n = row - at < sizeof kept ? row - at : sizeof kept;
      memcpy(kept, top + at, n);
      memcpy(top + at, bottom + at, n);
      memcpy(bottom + at, kept, n);
    }
  }
}

static void random_vertical_flip(const ct__transform_t *s, ct__draws_t *d, ct__pixels_t p,
                                 const void *in, void *out)
{
  const flip_t *o = s->o;
  (void)in;
  if (ct__draw(d) < o->p) ct__image_flip_vertical(p, out, ct__image_size(&s->in));
}

const ct__transform_kind_t ct__transform_random_vertical_flip = {.name = "random_vertical_flip",
                                                                 .help = "mirrors top to bottom",
                                                                 .flags = CT__TRANSFORM_RANDOM |
                                                                          CT__TRANSFORM_IN_PLACE,
                                                                 .size = sizeof(flip_t),
                                                                 .rows = flip_rows,
                                                                 .move = random_vertical_flip};
