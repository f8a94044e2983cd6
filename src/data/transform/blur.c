/* gaussian_blur, gaussian_noise, grayscale and random_grayscale. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_rng.h"
#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* ---- gaussian_blur ---- */

typedef struct blur {
  int64_t kernel_size[2];
  ct_opt_doubles_t sigma;
  double range[2];
} blur_t;
static const ct_opt_t blur_rows[] = {
    CT_OPT_PAIR(blur_t, kernel_size, NULL, 1, 1e6,
                "size of the kernel in pixels, odd: one number or [w, h]"),
    {"sigma", CT_OPT_T_DOUBLES, offsetof(blur_t, sigma), "[0.1, 2]", 1e-3, 1e6, 0,
     "standard deviation in pixels: one number, or [min, max] for a random one"},
    CT_OPT_END};

/* Computes the weights as torchvision does: a softmax over the places. */
static void blur_weights(int64_t n, double sigma, float *weight)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = ((double)i - (double)(n - 1) / 2) / (sigma * M_SQRT2);
    weight[i] = (float)exp(-x * x);
    sum += weight[i];
  }
  for (int64_t i = 0; i < n; i++)
    weight[i] = (float)(weight[i] / sum);
}

/* Returns i mirrored at the middles of the first and the last pixel. */
static int64_t reflect(int64_t i, int64_t n)
{
  i = i < 0 ? -i : i;
  return i < n ? i : 2 * (n - 1) - i;
}

/* y = weighted sum of pixels around each, horizontally; row: workspace of w + n - 1 */
static void blur_row(const float *restrict x, int64_t w, const float *restrict weight, int64_t n,
                     float *restrict row, float *restrict y)
{
  for (int64_t i = 0; i < w + n - 1; i++)
    row[i] = x[reflect(i - n / 2, w)];
  for (int64_t i = 0; i < w; i++)
    y[i] = weight[0] * row[i];
  for (int64_t k = 1; k < n; k++)
    for (int64_t i = 0; i < w; i++)
      y[i] += weight[k] * row[i + k];
}

static void blur_add(const float *restrict x, int64_t w, float weight, float *restrict y)
{
  for (int64_t i = 0; i < w; i++)
    y[i] += weight * x[i];
}

int64_t ct__image_blur_workspace(ct__image_size_t s, const int64_t kernel[2])
{
  return s.h * s.w + s.w + 2 * kernel[0] + kernel[1];
}

void ct__image_blur(float *x, ct__image_size_t s, const int64_t kernel[2], double sigma,
                    float *scratch)
{
  float *across = scratch, *down = across + kernel[0], *blurred = down + kernel[1];
  float *row = blurred + s.h * s.w;
  blur_weights(kernel[0], sigma, across);
  blur_weights(kernel[1], sigma, down);
  for (int64_t c = 0; c < s.c; c++, x += s.h * s.w) {
    for (int64_t i = 0; i < s.h; i++)
      blur_row(x + i * s.w, s.w, across, kernel[0], row, blurred + i * s.w);
    for (int64_t i = 0; i < s.h; i++) {
      memset(x + i * s.w, 0, (size_t)s.w * sizeof *x);
      for (int64_t k = 0; k < kernel[1]; k++)
        blur_add(blurred + reflect(i + k - kernel[1] / 2, s.h) * s.w, s.w, down[k], x + i * s.w);
    }
  }
}

static int fit_blur(ct__transform_t *s)
{
  const blur_t *o = s->o;
  s->scratch = ct__image_blur_workspace(ct__image_size(&s->in), o->kernel_size);
  return o->kernel_size[0] / 2 < s->in.dim[3] && o->kernel_size[1] / 2 < s->in.dim[2];
}

static int plan_blur(ct__transform_t *s, const ct__transform_location_t *at)
{
  blur_t *o = s->o;
  for (int i = 0; i < 2; i++)
    if (o->kernel_size[i] % 2 == 0)
      return ct__transform_refuse(at, "kernel_size: %lld must be odd",
                                  (long long)o->kernel_size[i]);
  if (!fit_blur(s))
    return ct__transform_refuse(
        at, "kernel_size: half of it must be less than the sample, which is %lldx%lld",
        (long long)s->in.dim[2], (long long)s->in.dim[3]);
  if (o->sigma.n != 1) return ct__transform_range(at, "sigma", &o->sigma, o->range);
  o->range[0] = o->range[1] = o->sigma.v[0];
  return CT_OK;
}

static void gaussian_blur(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                          float *scratch)
{
  const blur_t *o = s->o;
  (void)in;
  ct__image_blur(out, ct__image_size(&s->in), o->kernel_size,
                 ct__draw_in(d, o->range[0], o->range[1]), scratch);
}

const ct__transform_kind_t ct__transform_gaussian_blur = {
    .name = "gaussian_blur",
    .help = "blurs by a normal distribution of random width",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR,
    .size = sizeof(blur_t),
    .rows = blur_rows,
    .plan = plan_blur,
    .fit = fit_blur,
    .apply = gaussian_blur};

/* ---- gaussian_noise ---- */

typedef struct noise {
  ct_opt_doubles_t mean, sigma;
  int clip;
} noise_t;
static const ct_opt_t noise_rows[] = {
    {"mean", CT_OPT_T_DOUBLES, offsetof(noise_t, mean), "0", -1e30, 1e30, 0,
     "mean of the noise: one number, or one per channel"},
    {"sigma", CT_OPT_T_DOUBLES, offsetof(noise_t, sigma), "0.1", 0, 1e30, 0,
     "standard deviation of the noise: one number, or one per channel"},
    CT_OPT_BOOL(noise_t, clip, "false",
                "limit the result to 0 to 1, for images (torchvision's default)"),
    CT_OPT_END};

static int plan_noise(ct__transform_t *s, const ct__transform_location_t *at)
{
  const noise_t *o = s->o;
  const ct_opt_doubles_t *v[] = {&o->mean, &o->sigma};
  for (int i = 0; i < 2; i++)
    if (v[i]->n != 1 && v[i]->n != s->in.dim[1])
      return ct__transform_refuse(
          at, "%s has %d numbers, expected one or one for each of the %lld channels",
          noise_rows[i].key, v[i]->n, (long long)s->in.dim[1]);
  return CT_OK;
}

/* Draws four numbers from the standard normal distribution (Box and Muller). */
static void draw_four(ct__draws_t *d, float out[4])
{
  uint32_t bits[4];
  ct_rng_block(d->key, CT_RNG_TRANSFORM, d->next++, d->id, bits);
  for (int i = 0; i < 2; i++) {
    double radius = sqrt(-2 * log(((double)bits[2 * i] + 1) * 0x1p-32));
    double angle = 2 * M_PI * 0x1p-32 * (double)bits[2 * i + 1];
    out[2 * i] = (float)(radius * cos(angle));
    out[2 * i + 1] = (float)(radius * sin(angle));
  }
}

static void gaussian_noise(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                           float *scratch)
{
  const noise_t *o = s->o;
  int64_t channels = s->in.dim[1], plane = ct_shape_sample(&s->in) / channels;
  float normal[4];
  (void)in;
  (void)scratch;
  for (int64_t c = 0; c < channels; c++, out += plane) {
    float mean = (float)o->mean.v[o->mean.n > 1 ? c : 0];
    float sigma = (float)o->sigma.v[o->sigma.n > 1 ? c : 0];
    for (int64_t i = 0; i < plane; i++) {
      if (i % 4 == 0) draw_four(d, normal);
      out[i] += mean + sigma * normal[i % 4];
      if (o->clip) out[i] = fminf(fmaxf(out[i], 0), 1);
    }
  }
}

const ct__transform_kind_t ct__transform_gaussian_noise = {
    .name = "gaussian_noise",
    .help = "adds normally distributed noise to each value",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_ANY_SHAPE |
             CT__TRANSFORM_COLOUR,
    .size = sizeof(noise_t),
    .rows = noise_rows,
    .plan = plan_noise,
    .apply = gaussian_noise};

/* ---- grayscale, random_grayscale ---- */

typedef struct grayscale {
  int64_t num_output_channels;
} grayscale_t;
static const ct_opt_t grayscale_rows[] = {
    CT_OPT_INT(grayscale_t, num_output_channels, "1", 1, 3, "1, or 3 equal channels"), CT_OPT_END};
typedef struct random_grayscale {
  double p;
} random_grayscale_t;
static const ct_opt_t random_grayscale_rows[] = {
    CT_OPT_DOUBLE(random_grayscale_t, p, "0.1", 0, 1, "probability"), CT_OPT_END};

static int check_colours(const ct__transform_t *s, const ct__transform_location_t *at)
{
  if (s->in.dim[1] == 1 || s->in.dim[1] == 3) return CT_OK;
  return ct__transform_refuse(at, "needs samples of 1 or 3 channels, not of %lld",
                              (long long)s->in.dim[1]);
}

static int fit_grayscale(ct__transform_t *s)
{
  s->out.dim[1] = ((const grayscale_t *)s->o)->num_output_channels;
  return 1;
}

static int plan_grayscale(ct__transform_t *s, const ct__transform_location_t *at)
{
  fit_grayscale(s);
  if (s->out.dim[1] == 2) return ct__transform_refuse(at, "num_output_channels is 2, not 1 or 3");
  return check_colours(s, at);
}

void ct__image_gray(const float *x, ct__image_size_t s, float *y, int64_t channels)
{
  int64_t n = s.h * s.w;
  const float *g = s.c == 3 ? x + n : x, *b = s.c == 3 ? x + 2 * n : x;
  for (int64_t i = 0; i < n; i++) {
    float gray = s.c == 3 ? 0.2989f * x[i] + 0.587f * g[i] + 0.114f * b[i] : x[i];
    for (int64_t c = 0; c < channels; c++)
      y[c * n + i] = gray;
  }
}

static void grayscale(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                      float *scratch)
{
  (void)d;
  (void)scratch;
  ct__image_gray(in, ct__image_size(&s->in), out, s->out.dim[1]);
}

static void random_grayscale(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                             float *scratch)
{
  const random_grayscale_t *o = s->o;
  (void)in;
  (void)scratch;
  if (ct__draw(d) < o->p) ct__image_gray(out, ct__image_size(&s->in), out, s->in.dim[1]);
}

static int plan_random_grayscale(ct__transform_t *s, const ct__transform_location_t *at)
{
  return check_colours(s, at);
}

const ct__transform_kind_t ct__transform_grayscale = {.name = "grayscale",
                                                      .help = "makes colours gray",
                                                      .flags = CT__TRANSFORM_COLOUR,
                                                      .size = sizeof(grayscale_t),
                                                      .rows = grayscale_rows,
                                                      .plan = plan_grayscale,
                                                      .fit = fit_grayscale,
                                                      .apply = grayscale};
const ct__transform_kind_t ct__transform_random_grayscale = {
    .name = "random_grayscale",
    .help = "makes all channels gray",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR,
    .size = sizeof(random_grayscale_t),
    .rows = random_grayscale_rows,
    .plan = plan_random_grayscale,
    .apply = random_grayscale};
