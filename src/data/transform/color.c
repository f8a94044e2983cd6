/* color_jitter: brightness, contrast, saturation and hue of values in 0 to 1.  As in torchvision,
 * saturation and hue do not change gray images. */
#include "base/ct_err.h"
#include "data/transform/transforms.h"

/* The loops below dominate the time of a list with color_jitter, so they are vectorised in a build
 * with -O2 too.  A superfluous comparison may then set floating-point flags, which are not used. */
#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3", "no-trapping-math")
#endif

static inline float clamp(float v)
{
  v = v > 0 ? v : 0;
  return v < 1 ? v : 1;
}

static inline float gray(float r, float g, float b)
{
  return 0.2989f * r + 0.587f * g + 0.114f * b;
}

void ct__image_brightness(float *x, ct__image_size_t s, float factor)
{
  int64_t n = s.c * s.h * s.w;
  for (int64_t i = 0; i < n; i++)
    x[i] = clamp(factor * x[i]);
}

/* Returns the mean of the gray image (of the image itself if it is gray), in partial sums that can
 * be vectorised. */
static float mean_gray(const float *x, ct__image_size_t s)
{
  enum { LANES = 16 };
  float sums[LANES] = {0};
  double sum = 0;
  int64_t n = s.h * s.w, i = 0;
  const float *g = s.c == 3 ? x + n : x, *b = s.c == 3 ? x + 2 * n : x;
  float wr = s.c == 3 ? 0.2989f : 1, wg = s.c == 3 ? 0.587f : 0, wb = s.c == 3 ? 0.114f : 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      sums[k] += wr * x[i + k] + wg * g[i + k] + wb * b[i + k];
  for (; i < n; i++)
    sum += wr * x[i] + wg * g[i] + wb * b[i];
  for (int k = 0; k < LANES; k++)
    sum += sums[k];
  return (float)(sum / (double)n);
}

void ct__image_contrast(float *x, ct__image_size_t s, float factor)
{
  float rest = (1 - factor) * mean_gray(x, s);
  int64_t n = s.c * s.h * s.w;
  for (int64_t i = 0; i < n; i++)
    x[i] = clamp(factor * x[i] + rest);
}

static void saturate(float *restrict r, float *restrict g, float *restrict b, int64_t n,
                     float factor)
{
  for (int64_t i = 0; i < n; i++) {
    float rest = (1 - factor) * gray(r[i], g[i], b[i]);
    r[i] = clamp(factor * r[i] + rest);
    g[i] = clamp(factor * g[i] + rest);
    b[i] = clamp(factor * b[i] + rest);
  }
}

void ct__image_saturation(float *x, ct__image_size_t s, float factor)
{
  int64_t n = s.h * s.w;
  if (s.c == 3) saturate(x, x + n, x + 2 * n, n, factor);
}

/* Returns a channel of the colour of hue h6 (0 to 6): v on a third of the circle, v - range on the
 * opposite third, and straight lines between. */
static inline float channel(float h6, float offset, float v, float range)
{
  float k = h6 + offset;
  k = k >= 6 ? k - 6 : k;
  k = k < 4 - k ? k : 4 - k;
  return v - range * clamp(k);
}

static void turn(float *restrict r, float *restrict g, float *restrict b, int64_t n, float factor)
{
  float by = 6 * (factor < 0 ? factor + 1 : factor);
  for (int64_t i = 0; i < n; i++) {
    float red = r[i], green = g[i], blue = b[i];
    float high = red > green ? red : green, low = red > green ? green : red;
    high = high > blue ? high : blue;
    low = low < blue ? low : blue;
    float range = high - low, scale = 1 / (range > 0 ? range : 1);
    float from_red = (green - blue) * scale, from_green = (blue - red) * scale + 2;
    float from_blue = (red - green) * scale + 4;
    float h6 = high == green ? from_green : from_blue;
    h6 = high == red ? from_red : h6;
    h6 += by; /* -1 to 11 */
    h6 = h6 < 0 ? h6 + 6 : h6;
    h6 = h6 >= 6 ? h6 - 6 : h6;
    r[i] = channel(h6, 5, high, range);
    g[i] = channel(h6, 3, high, range);
    b[i] = channel(h6, 1, high, range);
  }
}

void ct__image_hue(float *x, ct__image_size_t s, float factor)
{
  int64_t n = s.h * s.w;
  if (s.c == 3) turn(x, x + n, x + 2 * n, n, factor);
}

/* ---- color_jitter ---- */

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, JITTERS };

typedef struct jitter {
  ct_opt_doubles_t given[JITTERS];
  double range[JITTERS][2];
} jitter_t;

#define JITTER(i, key, lo, hi, help)                                           \
  {                                                                            \
    key, CT_OPT_T_DOUBLES, offsetof(jitter_t, given[i]), "0", lo, hi, 0, help, \
  }
static const ct_opt_t jitter_rows[] = {
    JITTER(BRIGHTNESS, "brightness", 0, 1e6,
           "v: a random factor from max(0, 1 - v) to 1 + v; or [min, max]"),
    JITTER(CONTRAST, "contrast", 0, 1e6, "as brightness; a factor of 0 gives the mean gray"),
    JITTER(SATURATION, "saturation", 0, 1e6, "as brightness; a factor of 0 gives a gray image"),
    JITTER(HUE, "hue", -0.5, 0.5, "v: a rotation of the colour circle by -v to v; or [min, max]"),
    CT_OPT_END};

static int plan_jitter(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  jitter_t *o = s->o;
  if (s->in.dim[1] != 1 && s->in.dim[1] != 3)
    return ct__transform_refuse(at, "needs samples of 1 or 3 channels, not of %lld",
                                (long long)s->in.dim[1]);
  if (at->unscaled)
    return ct__transform_refuse(at, "works on values in 0 to 1: put to_tensor before it");
  for (int i = 0; i < JITTERS; i++) {
    double centre = i == HUE ? 0 : 1, *range = o->range[i];
    if (o->given[i].n != 1) {
      CT_TRY(ct__transform_range(at, jitter_rows[i].key, &o->given[i], range));
      continue;
    }
    double v = o->given[i].v[0];
    if (v < 0) return ct__transform_refuse(at, "%s is a single number below 0", jitter_rows[i].key);
    range[0] = i != HUE && v > 1 ? 0 : centre - v;
    range[1] = centre + v;
  }
out:
  return rc;
}

static void adjust(int which, float *x, ct__image_size_t s, float factor)
{
  static void (*const adjusts[])(float *, ct__image_size_t, float) = {
      [BRIGHTNESS] = ct__image_brightness,
      [CONTRAST] = ct__image_contrast,
      [SATURATION] = ct__image_saturation,
      [HUE] = ct__image_hue,
  };
  if (factor != (which == HUE ? 0.0f : 1.0f)) adjusts[which](x, s, factor);
}

/* Applies the adjustments in a random order, as torchvision does. */
static void color_jitter(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                         float *scratch)
{
  const jitter_t *o = s->o;
  int order[JITTERS] = {BRIGHTNESS, CONTRAST, SATURATION, HUE};
  float factor[JITTERS];
  (void)in;
  (void)scratch;
  for (int i = 0; i < JITTERS; i++)
    factor[i] = (float)ct__draw_in(d, o->range[i][0], o->range[i][1]);
  for (int left = JITTERS; left > 0; left--) {
    int k = (int)ct__draw_below(d, left), which = order[k];
    order[k] = order[left - 1];
    adjust(which, out, ct__image_size(&s->in), factor[which]);
  }
}

const ct__transform_kind_t ct__transform_color_jitter = {
    .name = "color_jitter",
    .help = "brightness, contrast, saturation and hue, in a random order; after to_tensor",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR,
    .size = sizeof(jitter_t),
    .rows = jitter_rows,
    .plan = plan_jitter,
    .apply = color_jitter};
