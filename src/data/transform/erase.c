/* random_erasing */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "data/transform/transforms.h"

typedef struct erasing {
  double p;
  ct_opt_doubles_t scale, ratio;
  ct_opt_texts_t value;
  double area[2];            /* option scale */
  double aspect[2];          /* option ratio */
  int noise;                 /* value: random */
  float fill[CT_AFFINE_MAX]; /* value, for each channel */
} erasing_t;
static const ct_opt_t erasing_rows[] = {
    CT_OPT_DOUBLE(erasing_t, p, "0.5", 0, 1, "probability"),
    {"scale", CT_OPT_T_DOUBLES, offsetof(erasing_t, scale), "[0.02, 0.33]", 0, 1, 0,
     "[min, max]: area of the box as a fraction of the image"},
    {"ratio", CT_OPT_T_DOUBLES, offsetof(erasing_t, ratio), "[0.3, 3.3]", 1e-3, 1e3, 0,
     "[min, max]: height of the box divided by its width"},
    CT_OPT_TEXTS(erasing_t, value, "0", "fill value: one number, one per channel, or 'random'"),
    CT_OPT_END};

static int read_value(erasing_t *o, int64_t channels, const ct__transform_location_t *at)
{
  o->noise = o->value.n == 1 && strcmp(o->value.v[0], "random") == 0;
  if (o->noise) return CT_OK;
  if (o->value.n != 1 && o->value.n != channels)
    return ct__transform_refuse(
        at, "value has %d numbers, expected one or one for each of the %lld channels", o->value.n,
        (long long)channels);
  if (channels > CT_AFFINE_MAX)
    return ct__transform_refuse(at, "a sample has more than %d channels", CT_AFFINE_MAX);
  for (int64_t c = 0; c < channels; c++) {
    double v;
    const char *text = o->value.v[o->value.n == 1 ? 0 : c];
    if (ct_text_double(text, &v) != CT_OK)
      return ct__transform_refuse(at, "value is '%.80s', not a number or 'random'", text);
    if (fabs(v) > FLT_MAX)
      return ct__transform_refuse(at, "value: %g exceeds the largest float32, %.2g", v, FLT_MAX);
    o->fill[c] = (float)v;
  }
  return CT_OK;
}

static int plan_erasing(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  erasing_t *o = s->o;
  CT_TRY(ct__transform_range(at, "scale", &o->scale, o->area));
  CT_TRY(ct__transform_range(at, "ratio", &o->ratio, o->aspect));
  CT_TRY(read_value(o, s->in.dim[1], at));
out:
  return rc;
}

void ct__image_erase(float *x, ct__image_size_t s, ct__image_box_t b, const float *value)
{
  for (int64_t c = 0; c < s.c; c++)
    for (int64_t i = 0; i < b.h; i++) {
      float *row = x + (c * s.h + b.top + i) * s.w + b.left;
      for (int64_t k = 0; k < b.w; k++)
        row[k] = value[c];
    }
}

static void erase_with_noise(float *x, ct__image_size_t s, ct__image_box_t b, ct__draws_t *d)
{
  for (int64_t c = 0; c < s.c; c++)
    for (int64_t i = 0; i < b.h; i++) {
      float *row = x + (c * s.h + b.top + i) * s.w + b.left;
      for (int64_t k = 0; k < b.w; k++)
        row[k] = (float)ct__draw_normal(d);
    }
}

/* Draws a box; returns an empty one if no drawn box fits. */
static ct__image_box_t draw_box(const erasing_t *o, ct__image_size_t s, ct__draws_t *d)
{
  for (int attempt = 0; attempt < 10; attempt++) {
    double area = (double)(s.h * s.w) * ct__draw_in(d, o->area[0], o->area[1]);
    double aspect = exp(ct__draw_in(d, log(o->aspect[0]), log(o->aspect[1])));
    ct__image_box_t b = {.h = (int64_t)nearbyint(sqrt(area * aspect)),
                         .w = (int64_t)nearbyint(sqrt(area / aspect))};
    if (b.h >= s.h || b.w >= s.w) continue;
    b.top = ct__draw_below(d, s.h - b.h + 1);
    b.left = ct__draw_below(d, s.w - b.w + 1);
    return b;
  }
  return (ct__image_box_t){0};
}

static void random_erasing(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                           float *scratch)
{
  const erasing_t *o = s->o;
  ct__image_size_t size = ct__image_size(&s->in);
  (void)in;
  (void)scratch;
  if (ct__draw(d) >= o->p) return;
  ct__image_box_t b = draw_box(o, size, d);
  if (o->noise)
    erase_with_noise(out, size, b, d);
  else
    ct__image_erase(out, size, b, o->fill);
}

const ct__transform_kind_t ct__transform_random_erasing = {
    .name = "random_erasing",
    .help = "fills a random box with one value or noise",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR,
    .size = sizeof(erasing_t),
    .rows = erasing_rows,
    .plan = plan_erasing,
    .apply = random_erasing};
