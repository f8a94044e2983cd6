/* mixup and cutmix, which combine two samples of the data set. */
#include <math.h>
#include <string.h>

#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

void ct__image_blend(float *restrict y, const float *restrict other, int64_t n, float share)
{
  float rest = 1 - share;
  for (int64_t i = 0; i < n; i++)
    y[i] = share * y[i] + rest * other[i];
}

void ct__image_paste(float *y, const float *other, ct__image_size_t s, ct__image_box_t b)
{
  for (int64_t c = 0; c < s.c; c++)
    for (int64_t i = 0; i < b.h; i++) {
      int64_t at = (c * s.h + b.top + i) * s.w + b.left;
      memcpy(y + at, other + at, (size_t)b.w * sizeof *y);
    }
}

ct__image_box_t ct__image_cutmix_box(ct__image_size_t s, double lambda, int64_t y, int64_t x)
{
  double r = 0.5 * sqrt(1 - lambda);
  int64_t h = (int64_t)(r * (double)s.h), w = (int64_t)(r * (double)s.w); /* half of each */
  int64_t top = y > h ? y - h : 0, left = x > w ? x - w : 0;
  int64_t bottom = y + h < s.h ? y + h : s.h, right = x + w < s.w ? x + w : s.w;
  return (ct__image_box_t){.top = top, .left = left, .h = bottom - top, .w = right - left};
}

/* ---- the options ---- */

typedef struct mix {
  double alpha;
} mix_t;
static const ct_opt_t mix_rows[] = {
    CT_OPT_DOUBLE(mix_t, alpha, "1", 1e-3, 1e3, "lambda is drawn from Beta(alpha, alpha)"),
    CT_OPT_END};

const ct__transform_kind_t ct__transform_mixup = {
    .name = "mixup",
    .help = "lambda * sample + (1 - lambda) * another sample; labels alike",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_MIX | CT__TRANSFORM_ANY_SHAPE,
    .size = sizeof(mix_t),
    .rows = mix_rows};
const ct__transform_kind_t ct__transform_cutmix = {
    .name = "cutmix",
    .help = "pastes a box of area 1 - lambda from another sample; labels are mixed by area",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_MIX,
    .size = sizeof(mix_t),
    .rows = mix_rows};

ct__transform_mix_t ct__transform_mix_draw_kind(const ct__transform_t *s, ct__draws_t *d,
                                                int64_t samples)
{
  ct__transform_mix_t m = {.partner = ct__draw_below(d, samples)};
  double lambda = ct__draw_beta(d, ((const mix_t *)s->o)->alpha);
  m.share = (float)lambda;
  if (s->kind != &ct__transform_cutmix) return m;
  ct__image_size_t size = ct__image_size(&s->in);
  int64_t x = ct__draw_below(d, size.w), y = ct__draw_below(d, size.h);
  m.box = ct__image_cutmix_box(size, lambda, y, x);
  m.share = 1 - (float)(m.box.h * m.box.w) / (float)(size.h * size.w);
  if (m.box.h == 0 || m.box.w == 0) m = (ct__transform_mix_t){.partner = -1, .share = 1};
  return m;
}
