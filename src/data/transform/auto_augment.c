/* trivial_augment_wide and rand_augment: one or several of 14 operations on 8-bit images, as
 * torchvision applies them to uint8 tensors. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3", "no-trapping-math")
#endif

/* ---- magnitudes ---- */

/* The largest magnitudes: of rand_augment, and of trivial_augment_wide. */
static const struct {
  float most[2];
  int has_sign;
} ranges[CT__AUGMENTS] = {
    [CT__AUGMENT_SHEAR_X] = {{0.3F, 0.99F}, 1},   [CT__AUGMENT_SHEAR_Y] = {{0.3F, 0.99F}, 1},
    [CT__AUGMENT_TRANSLATE_X] = {{0, 32}, 1},     [CT__AUGMENT_TRANSLATE_Y] = {{0, 32}, 1},
    [CT__AUGMENT_ROTATE] = {{30, 135}, 1},        [CT__AUGMENT_BRIGHTNESS] = {{0.9F, 0.99F}, 1},
    [CT__AUGMENT_COLOUR] = {{0.9F, 0.99F}, 1},    [CT__AUGMENT_CONTRAST] = {{0.9F, 0.99F}, 1},
    [CT__AUGMENT_SHARPNESS] = {{0.9F, 0.99F}, 1}, [CT__AUGMENT_POSTERIZE] = {{4, 6}, 0},
    [CT__AUGMENT_SOLARIZE] = {{1, 1}, 0},
};

/* As torch.linspace(from, to, bins) in float32. */
static float linspace(float from, float to, int64_t bin, int64_t bins)
{
  float step = (to - from) / (float)(bins - 1);
  return bin < bins / 2 ? from + step * (float)bin : to - step * (float)(bins - 1 - bin);
}

double ct__augment_magnitude(ct__augment_t op, int wide, ct__image_size_t s, int64_t bin,
                             int64_t bins)
{
  float most = ranges[op].most[!!wide];
  if (op == CT__AUGMENT_SOLARIZE) return linspace(1, 0, bin, bins);
  if (op == CT__AUGMENT_POSTERIZE)
    return 8 - nearbyint((double)bin / ((double)(bins - 1) / (double)most));
  if (!wide && op == CT__AUGMENT_TRANSLATE_X) most = (float)(150.0 / 331 * (double)s.w);
  if (!wide && op == CT__AUGMENT_TRANSLATE_Y) most = (float)(150.0 / 331 * (double)s.h);
  return linspace(0, most, bin, bins);
}

/* ---- operations ---- */

static inline float byte_of(float v)
{
  v = v > 0 ? v : 0;
  v = v < 255 ? v : 255;
  return (float)(int)v;
}

/* x = ratio * x + (1 - ratio) * (a value for each pixel of a plane, or 0) */
static void blend(float *restrict x, const float *restrict with, int64_t n, double ratio)
{
  float a = (float)ratio, b = (float)(1 - ratio);
  for (int64_t i = 0; i < n; i++)
    x[i] = byte_of(a * x[i] + b * with[i]);
}

static void adjust(ct__augment_t op, double ratio, float *x, ct__image_size_t s, float *scratch)
{
  int64_t n = s.h * s.w;
  double sum = 0;
  if (op == CT__AUGMENT_COLOUR && s.c == 1) return;
  ct__image_gray(x, s, scratch, 1);
  for (int64_t i = 0; i < n; i++) {
    scratch[i] = floorf(scratch[i]);
    sum += scratch[i];
  }
  for (int64_t i = 0; i < n && op != CT__AUGMENT_COLOUR; i++)
    scratch[i] = op == CT__AUGMENT_CONTRAST ? (float)(sum / (double)n) : 0;
  for (int64_t c = 0; c < s.c; c++)
    blend(x + c * n, scratch, n, ratio);
}

static void sharpen(double ratio, float *x, ct__image_size_t s, float *scratch)
{
  float rest = (float)(1 - ratio);
  if (s.h <= 2 || s.w <= 2) return;
  memcpy(scratch, x, (size_t)(s.c * s.h * s.w) * sizeof *x);
  for (int64_t c = 0; c < s.c; c++)
    for (int64_t i = 1; i < s.h - 1; i++) {
      const float *from = scratch + (c * s.h + i) * s.w, *up = from - s.w, *down = from + s.w;
      float *to = x + (c * s.h + i) * s.w;
      for (int64_t k = 1; k < s.w - 1; k++) {
        float around = up[k - 1] + up[k] + up[k + 1] + from[k - 1] + from[k + 1] + down[k - 1] +
                       down[k] + down[k + 1];
        float blurred = nearbyintf((around + 5 * from[k]) / 13);
        to[k] = byte_of(from[k] + rest * (blurred - from[k]));
      }
    }
}

static void stretch(float *x, int64_t n)
{
  float low = x[0], high = x[0];
  for (int64_t i = 1; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  float scale = (high - low) * (float)(1.0 / 255);
  for (int64_t i = 0; i < n && high > low; i++)
    x[i] = byte_of((x[i] - low) / scale);
}

static void equalize(float *x, int64_t n)
{
  int64_t count[256] = {0}, before = 0;
  int last = 0;
  float to[256];
  for (int64_t i = 0; i < n; i++)
    count[(int)x[i]]++;
  for (int v = 0; v < 256; v++)
    if (count[v]) last = v;
  int64_t step = (n - count[last]) / 255;
  if (step == 0) return;
  for (int v = 0; v < 256; v++) {
    int64_t bin = v ? (before + step / 2) / step : 0;
    to[v] = (float)(bin < 255 ? bin : 255);
    before += count[v];
  }
  for (int64_t i = 0; i < n; i++)
    x[i] = to[(int)x[i]];
}

static void quantize(ct__augment_t op, double magnitude, float *x, int64_t n)
{
  int mask = 255 << (8 - (int)magnitude);
  float from = (float)(255 * magnitude);
  for (int64_t i = 0; i < n && op == CT__AUGMENT_POSTERIZE; i++)
    x[i] = (float)((int)x[i] & mask);
  for (int64_t i = 0; i < n && op == CT__AUGMENT_SOLARIZE; i++)
    x[i] = x[i] >= from ? 255 - x[i] : x[i];
}

/* Shears are about the corner, and their magnitudes are tangents. */
static ct__image_map_t map_of(ct__augment_t op, double magnitude, ct__image_size_t s)
{
  static const double corner[2] = {0, 0};
  ct__image_affine_t a = {.scale = 1};
  if (op == CT__AUGMENT_ROTATE) {
    a.degrees = -magnitude;
  } else if (op == CT__AUGMENT_TRANSLATE_X || op == CT__AUGMENT_TRANSLATE_Y) {
    a.translate[op == CT__AUGMENT_TRANSLATE_Y] = trunc(magnitude);
  } else {
    a.centre = corner;
    a.shear[op == CT__AUGMENT_SHEAR_Y] = atan(magnitude) * 180 / M_PI;
  }
  return ct__image_affine(s, &a);
}

static int is_geometric(ct__augment_t op)
{
  return op >= CT__AUGMENT_SHEAR_X && op <= CT__AUGMENT_ROTATE;
}

static void warp(ct__augment_t op, double magnitude, float *x, ct__image_size_t s,
                 const ct__image_sampling_t *how, float *scratch)
{
  ct__image_map_t map = map_of(op, magnitude, s);
  memcpy(scratch, x, (size_t)(s.c * s.h * s.w) * sizeof *x);
  ct__image_warp(scratch, s, &map, NULL, how, x);
}

void ct__augment(ct__augment_t op, double magnitude, float *x, ct__image_size_t s,
                 const ct__image_sampling_t *how, float *scratch)
{
  int64_t plane = s.h * s.w, n = s.c * plane;
  if (is_geometric(op)) {
    warp(op, magnitude, x, s, how, scratch);
    for (int64_t i = 0; i < n && how->bilinear; i++)
      x[i] = nearbyintf(x[i]);
  }
  if (op == CT__AUGMENT_BRIGHTNESS || op == CT__AUGMENT_COLOUR || op == CT__AUGMENT_CONTRAST)
    adjust(op, 1 + magnitude, x, s, scratch);
  if (op == CT__AUGMENT_SHARPNESS) sharpen(1 + magnitude, x, s, scratch);
  if (op == CT__AUGMENT_POSTERIZE || op == CT__AUGMENT_SOLARIZE) quantize(op, magnitude, x, n);
  for (int64_t c = 0; c < s.c && op == CT__AUGMENT_AUTOCONTRAST; c++)
    stretch(x + c * plane, plane);
  for (int64_t c = 0; c < s.c && op == CT__AUGMENT_EQUALIZE; c++)
    equalize(x + c * plane, plane);
}

/* ---- the kinds ---- */

typedef struct augment {
  int64_t num_ops, magnitude, num_magnitude_bins;
  int bilinear, wide;
  ct_opt_doubles_t fill;
  double target_fill;
  ct__image_sampling_t of_sample;
} augment_t;

#define AUGMENT_ROWS                                                                            \
  CT_OPT_INT(augment_t, num_magnitude_bins, "31", 2, 1e6, "number of different magnitudes"),    \
      {"interpolation",                                                                         \
       CT_OPT_T_CHOICE,                                                                         \
       offsetof(augment_t, bilinear),                                                           \
       "nearest",                                                                               \
       0,                                                                                       \
       0,                                                                                       \
       "nearest|bilinear",                                                                      \
       "how values between pixels are computed; for masks of classes nearest"},                 \
      {"fill",                                                                                  \
       CT_OPT_T_DOUBLES,                                                                        \
       offsetof(augment_t, fill),                                                               \
       "",                                                                                      \
       0,                                                                                       \
       1,                                                                                       \
       0,                                                                                       \
       "value outside the image, 0 to 1: one number or one per channel; default: 0"},           \
      CT_OPT_DOUBLE(augment_t, target_fill, "0", -1e9, 1e9,                                     \
                    "value of masks and other arrays outside, such as the class that the loss " \
                    "ignores")
static const ct_opt_t trivial_rows[] = {AUGMENT_ROWS, CT_OPT_END};
static const ct_opt_t rand_rows[] = {
    CT_OPT_INT(augment_t, num_ops, "2", 0, 1000, "operations that are applied one after another"),
    CT_OPT_INT(augment_t, magnitude, "9", 0, 1e6, "magnitude of all operations: 0 to the last bin"),
    AUGMENT_ROWS, CT_OPT_END};

static int fit_augment(ct__transform_t *s)
{
  s->scratch = ct_shape_sample(&s->in);
  return 1;
}

static int plan_augment(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  augment_t *o = s->o;
  if (s->in.dim[1] != 1 && s->in.dim[1] != 3)
    return ct__transform_refuse(at, "needs samples of 1 or 3 channels, not of %lld",
                                (long long)s->in.dim[1]);
  if (at->unscaled)
    return ct__transform_refuse(at, "works on values in 0 to 1: put to_tensor before it");
  if (o->magnitude >= o->num_magnitude_bins)
    return ct__transform_refuse(at, "magnitude %lld is not less than num_magnitude_bins, %lld",
                                (long long)o->magnitude, (long long)o->num_magnitude_bins);
  o->wide = s->kind == &ct__transform_trivial_augment_wide;
  CT_TRY(ct__image_sampling(at, &o->fill, s->in.dim[1], &o->of_sample));
  for (int i = 0; i < o->of_sample.fills; i++)
    o->of_sample.fill[i] *= 255;
  o->of_sample.bilinear = o->bilinear;
  fit_augment(s);
out:
  return rc;
}

/* Applies the operations to the sample.  Arrays that move along with it get the geometric ones. */
static void augment(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                    float *scratch)
{
  const augment_t *o = s->o;
  ct__image_size_t size = ct__image_size(&s->in);
  int64_t n = size.c * size.h * size.w;
  ct__image_sampling_t along = {.fills = 1, .fill = {(float)o->target_fill}};
  along.bilinear = s->along && !s->along->by_class && o->bilinear;
  (void)in;
  for (int64_t i = 0; i < n && !s->along; i++)
    out[i] = nearbyintf(255 * fminf(fmaxf(out[i], 0), 1));
  for (int k = 0; k < (o->wide ? 1 : o->num_ops); k++) {
    ct__augment_t op = (ct__augment_t)ct__draw_below(d, CT__AUGMENTS);
    int64_t bin = o->wide ? ct__draw_below(d, o->num_magnitude_bins) : o->magnitude;
    double magnitude = ct__augment_magnitude(op, o->wide, size, bin, o->num_magnitude_bins);
    if (ranges[op].has_sign && ct__draw(d) < 0.5) magnitude = -magnitude;
    if (!s->along)
      ct__augment(op, magnitude, out, size, &o->of_sample, scratch);
    else if (is_geometric(op))
      warp(op, magnitude, out, size, &along, scratch);
  }
  for (int64_t i = 0; i < n && !s->along; i++)
    out[i] *= (float)(1.0 / 255);
}

const ct__transform_kind_t ct__transform_trivial_augment_wide = {
    .name = "trivial_augment_wide",
    .help = "TrivialAugment: one of 14 operations with a random magnitude, on values of 0 to 1 "
            "rounded to 8 bits",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE,
    .size = sizeof(augment_t),
    .rows = trivial_rows,
    .plan = plan_augment,
    .fit = fit_augment,
    .apply = augment};
const ct__transform_kind_t ct__transform_rand_augment = {
    .name = "rand_augment",
    .help = "RandAugment: num_ops of 14 operations with one magnitude, on values of 0 to 1 rounded "
            "to 8 bits",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE,
    .size = sizeof(augment_t),
    .rows = rand_rows,
    .plan = plan_augment,
    .fit = fit_augment,
    .apply = augment};
