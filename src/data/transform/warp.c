/* random_rotation, random_affine, random_perspective, elastic_transform: each pixel of the result
 * is read at a place between pixels of the sample, as torchvision does for tensors (a grid and
 * grid_sample). */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "data/transform/transforms.h"

/* ---- with given parameters ---- */

ct__image_map_t ct__image_affine(ct__image_size_t s, const ct__image_affine_t *a)
{
  double rot = a->degrees * M_PI / 180, sx = a->shear[0] * M_PI / 180,
         sy = a->shear[1] * M_PI / 180;
  double w = (double)s.w, h = (double)s.h;
  double cx = a->centre ? a->centre[0] - w * 0.5 : 0, cy = a->centre ? a->centre[1] - h * 0.5 : 0;
  double px = cx + a->translate[0], py = cy + a->translate[1];
  double c00 = cos(rot - sy) / cos(sy), c10 = sin(rot - sy) / cos(sy);
  double c01 = -(c00 * tan(sx) + sin(rot)), c11 = cos(rot) - c10 * tan(sx);
  ct__image_map_t m = {
      {c11 / a->scale, -c01 / a->scale, 0, -c10 / a->scale, c00 / a->scale, 0, 0, 0, 1}};
  /* from the middle of the image to its first pixel, before and after */
  double x0 = (w - 1) / 2, y0 = (h - 1) / 2;
  m.v[2] = cx - m.v[0] * (px + x0) - m.v[1] * (py + y0) + x0;
  m.v[5] = cy - m.v[3] * (px + x0) - m.v[4] * (py + y0) + y0;
  return m;
}

/* Solves the n equations a[][n + 1] by elimination; returns 0 if they are singular. */
static int solve(double *a, int n)
{
  for (int i = 0; i < n; i++) {
    int pivot = i;
    for (int k = i + 1; k < n; k++)
      if (fabs(a[k * (n + 1) + i]) > fabs(a[pivot * (n + 1) + i])) pivot = k;
    if (fabs(a[pivot * (n + 1) + i]) < 1e-9) return 0;
    for (int j = 0; j <= n; j++) {
      double kept = a[i * (n + 1) + j];
      a[i * (n + 1) + j] = a[pivot * (n + 1) + j];
      a[pivot * (n + 1) + j] = kept;
    }
    for (int k = 0; k < n; k++) {
      double factor = k == i ? 0 : a[k * (n + 1) + i] / a[i * (n + 1) + i];
      for (int j = i; j <= n; j++)
        a[k * (n + 1) + j] -= factor * a[i * (n + 1) + j];
    }
  }
  return 1;
}

int ct__image_perspective(ct__image_size_t s, const int64_t to[4][2], ct__image_map_t *out)
{
  const double w = (double)s.w - 1, h = (double)s.h - 1;
  const double from[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
  double a[8][9], c[8];
  for (int i = 0; i < 8; i++) {
    double x = (double)to[i / 2][0], y = (double)to[i / 2][1], v = from[i / 2][i % 2];
    const double row[9] = {i % 2 ? 0 : x, i % 2 ? 0 : y, i % 2 ? 0 : 1,
                           i % 2 ? x : 0, i % 2 ? y : 0, i % 2 ? 1 : 0,
                           -v * x,        -v * y,        v};
    memcpy(a[i], row, sizeof row);
  }
  if (!solve(&a[0][0], 8)) return 0;
  for (int i = 0; i < 8; i++)
    c[i] = (float)(a[i][8] / a[i][i]); /* torchvision rounds them */
  /* places count from the corner of the first pixel, not from its middle */
  const double last[3] = {c[6], c[7], 1 + (c[6] + c[7]) / 2};
  for (int i = 0; i < 3; i++) {
    out->v[6 + i] = last[i];
    for (int k = 0; k < 2; k++)
      out->v[3 * k + i] = c[3 * k + i] + (i == 2 ? (c[3 * k] + c[3 * k + 1]) / 2 : 0) - last[i] / 2;
  }
  return 1;
}

/* Returns the pixel at (ix, iy), 0 outside; adds its weight to *covered if it is inside. */
static inline float tap(const float *x, ct__image_size_t s, int64_t ix, int64_t iy, float weight,
                        float *covered)
{
  if (ix < 0 || ix >= s.w || iy < 0 || iy >= s.h) return 0;
  *covered += weight;
  return weight * x[iy * s.w + ix];
}

static float bilinear(const float *x, ct__image_size_t s, double px, double py, float *covered)
{
  double left = floor(px), top = floor(py);
  int64_t ix = (int64_t)left, iy = (int64_t)top;
  float e = (float)(px - left), f = (float)(py - top);
  *covered = 0;
  float sum = tap(x, s, ix, iy, (1 - e) * (1 - f), covered);
  sum += tap(x, s, ix + 1, iy, e * (1 - f), covered);
  sum += tap(x, s, ix, iy + 1, (1 - e) * f, covered);
  return sum + tap(x, s, ix + 1, iy + 1, e * f, covered);
}

/* A place so far outside, or no place at all, is not converted to integers. */
static int is_near(ct__image_size_t s, double px, double py)
{
  return px > -1 && px < (double)s.w && py > -1 && py < (double)s.h;
}

void ct__image_warp(const float *x, ct__image_size_t s, const ct__image_map_t *map,
                    const float *shift, const ct__image_sampling_t *how, float *y)
{
  const double *m = map->v;
  int64_t n = s.h * s.w, at = 0;
  for (int64_t i = 0; i < s.h; i++)
    for (int64_t k = 0; k < s.w; k++, at++) {
      double r = (double)i, q = (double)k, by = m[6] * q + m[7] * r + m[8];
      double px = (m[0] * q + m[1] * r + m[2]) / by, py = (m[3] * q + m[4] * r + m[5]) / by;
      px += shift ? (double)shift[at] : 0;
      py += shift ? (double)shift[n + at] : 0;
      int near = is_near(s, px, py);
      for (int64_t c = 0; c < s.c; c++) {
        float fill = how->fills ? how->fill[how->fills > 1 ? c : 0] : 0, covered = 0, v = 0;
        const float *plane = x + c * n;
        if (near && how->bilinear) v = bilinear(plane, s, px, py, &covered);
        if (near && !how->bilinear)
          v = tap(plane, s, (int64_t)nearbyint(px), (int64_t)nearbyint(py), 1, &covered);
        /* torchvision multiplies by the share of the image twice, if there is a fill value */
        if (how->fills) v = how->bilinear || covered < 1 ? (v - fill) * covered + fill : v;
        y[c * n + at] = v;
      }
    }
}

/* ---- options ---- */

typedef struct sampling {
  int bilinear;
  ct_opt_doubles_t fill;
  double target_fill;
  ct__image_sampling_t of_sample;
} sampling_t;

#define SAMPLING_ROWS(T, interpolation)                                                    \
  {"interpolation",                                                                        \
   CT_OPT_T_CHOICE,                                                                        \
   offsetof(T, sampling.bilinear),                                                         \
   interpolation,                                                                          \
   0,                                                                                      \
   0,                                                                                      \
   "nearest|bilinear",                                                                     \
   "how values between pixels are computed; for masks of classes nearest"},                \
      {"fill",                                                                             \
       CT_OPT_T_DOUBLES,                                                                   \
       offsetof(T, sampling.fill),                                                         \
       "0",                                                                                \
       -1e30,                                                                              \
       1e30,                                                                               \
       0,                                                                                  \
       "value outside the sample: one number or one per channel"},                         \
  {                                                                                        \
    "target_fill", CT_OPT_T_DOUBLE, offsetof(T, sampling.target_fill), "0", -1e9, 1e9, 0,  \
        "value of masks and other arrays outside, such as the class that the loss ignores" \
  }

int ct__image_sampling(const ct__transform_location_t *at, const ct_opt_doubles_t *fill,
                       int64_t channels, ct__image_sampling_t *out)
{
  if (fill->n > 1 && fill->n != channels)
    return ct__transform_refuse(
        at, "fill has %d numbers, expected one or one for each of the %lld channels", fill->n,
        (long long)channels);
  if (fill->n > CT_AFFINE_MAX)
    return ct__transform_refuse(at, "fill has more than %d numbers", CT_AFFINE_MAX);
  out->fills = fill->n;
  for (int i = 0; i < fill->n; i++)
    out->fill[i] = (float)fill->v[i];
  return CT_OK;
}

static int plan_sampling(const ct__transform_t *s, const ct__transform_location_t *at,
                         sampling_t *o)
{
  o->of_sample.bilinear = o->bilinear;
  return ct__image_sampling(at, &o->fill, s->in.dim[1], &o->of_sample);
}

/* Applies the map to the sample, or to an array that moves along with it. */
static void sample_by(const ct__transform_t *s, const sampling_t *o, const ct__image_map_t *map,
                      const float *shift, const float *in, float *out)
{
  ct__image_sampling_t how = {.fills = 1, .fill = {(float)o->target_fill}};
  how.bilinear = s->along && !s->along->by_class && o->bilinear;
  ct__image_warp(in, ct__image_size(&s->in), map, shift, s->along ? &how : &o->of_sample, out);
}

/* Reads a range: one number v is [-v, v]. */
static int read_angles(const ct__transform_location_t *at, const char *option,
                       const ct_opt_doubles_t *v, double out[2])
{
  if (v->n != 1) return ct__transform_range(at, option, v, out);
  if (v->v[0] < 0) return ct__transform_refuse(at, "%s is a single number below 0", option);
  out[0] = -v->v[0];
  out[1] = v->v[0];
  return CT_OK;
}

static int check_centre(const ct__transform_location_t *at, const ct_opt_doubles_t *v)
{
  if (v->n == 0 || v->n == 2) return CT_OK;
  return ct__transform_refuse(at, "center: expected [x, y]");
}

#define CENTRE_HELP \
  "[x, y] of the point that stays, from the upper left corner; default: the middle"

/* ---- random_rotation ---- */

typedef struct rotation {
  ct_opt_doubles_t degrees, center;
  sampling_t sampling;
  double angle[2];
} rotation_t;
static const ct_opt_t rotation_rows[] = {
    {"degrees", CT_OPT_T_DOUBLES, offsetof(rotation_t, degrees), NULL, -1e6, 1e6, 0,
     "v: an angle of -v to v, counterclockwise; or [min, max]"},
    SAMPLING_ROWS(rotation_t, "nearest"),
    CT_OPT_DOUBLES(rotation_t, center, "", CENTRE_HELP),
    CT_OPT_END};

static int plan_rotation(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  rotation_t *o = s->o;
  CT_TRY(read_angles(at, "degrees", &o->degrees, o->angle));
  CT_TRY(check_centre(at, &o->center));
  CT_TRY(plan_sampling(s, at, &o->sampling));
out:
  return rc;
}

static void random_rotation(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                            float *scratch)
{
  const rotation_t *o = s->o;
  ct__image_affine_t a = {.degrees = -ct__draw_in(d, o->angle[0], o->angle[1]),
                          .scale = 1,
                          .centre = o->center.n ? o->center.v : NULL};
  ct__image_map_t map = ct__image_affine(ct__image_size(&s->in), &a);
  (void)scratch;
  sample_by(s, &o->sampling, &map, NULL, in, out);
}

const ct__transform_kind_t ct__transform_random_rotation = {.name = "random_rotation",
                                                            .help = "rotates by a random angle",
                                                            .flags = CT__TRANSFORM_RANDOM,
                                                            .size = sizeof(rotation_t),
                                                            .rows = rotation_rows,
                                                            .plan = plan_rotation,
                                                            .apply = random_rotation};

/* ---- random_affine ---- */

typedef struct affine {
  ct_opt_doubles_t degrees, translate, scale, shear, center;
  sampling_t sampling;
  double angle[2], shears[2][2], size[2];
} affine_t;
static const ct_opt_t affine_rows[] = {
    {"degrees", CT_OPT_T_DOUBLES, offsetof(affine_t, degrees), NULL, -1e6, 1e6, 0,
     "v: an angle of -v to v, clockwise; or [min, max]; 0: no rotation"},
    {"translate", CT_OPT_T_DOUBLES, offsetof(affine_t, translate), "", 0, 1, 0,
     "[a, b]: a shift by up to a of the width and b of the height, in whole pixels"},
    {"scale", CT_OPT_T_DOUBLES, offsetof(affine_t, scale), "", 1e-3, 1e3, 0,
     "[min, max]: factor of the size"},
    {"shear", CT_OPT_T_DOUBLES, offsetof(affine_t, shear), "", -89, 89, 0,
     "degrees v: a shear along x by -v to v; [min, max] along x; or [min, max, min, max] along x "
     "and y"},
    SAMPLING_ROWS(affine_t, "nearest"),
    CT_OPT_DOUBLES(affine_t, center, "", CENTRE_HELP),
    CT_OPT_END};

static int plan_affine(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  affine_t *o = s->o;
  ct_opt_doubles_t first = o->shear;
  CT_TRY(read_angles(at, "degrees", &o->degrees, o->angle));
  if (o->translate.n != 0 && o->translate.n != 2)
    return ct__transform_refuse(at, "translate: expected [a, b]");
  o->size[0] = o->size[1] = 1;
  if (o->scale.n) CT_TRY(ct__transform_range(at, "scale", &o->scale, o->size));
  if (o->shear.n == 4) {
    const ct_opt_doubles_t second = {first.v + 2, 2};
    first.n = 2;
    CT_TRY(ct__transform_range(at, "shear", &second, o->shears[1]));
  }
  if (o->shear.n) CT_TRY(read_angles(at, "shear", &first, o->shears[0]));
  CT_TRY(check_centre(at, &o->center));
  CT_TRY(plan_sampling(s, at, &o->sampling));
out:
  return rc;
}

static void random_affine(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                          float *scratch)
{
  const affine_t *o = s->o;
  ct__image_affine_t a = {.degrees = ct__draw_in(d, o->angle[0], o->angle[1]),
                          .centre = o->center.n ? o->center.v : NULL};
  (void)scratch;
  for (int i = 0; i < o->translate.n; i++) {
    double most = o->translate.v[i] * (double)s->in.dim[3 - i];
    a.translate[i] = nearbyint(ct__draw_in(d, -most, most));
  }
  a.scale = ct__draw_in(d, o->size[0], o->size[1]);
  for (int i = 0; i < 2; i++)
    a.shear[i] = ct__draw_in(d, o->shears[i][0], o->shears[i][1]);
  ct__image_map_t map = ct__image_affine(ct__image_size(&s->in), &a);
  sample_by(s, &o->sampling, &map, NULL, in, out);
}

const ct__transform_kind_t ct__transform_random_affine = {
    .name = "random_affine",
    .help = "rotates, shifts, scales and shears by random amounts",
    .flags = CT__TRANSFORM_RANDOM,
    .size = sizeof(affine_t),
    .rows = affine_rows,
    .plan = plan_affine,
    .apply = random_affine};

/* ---- random_perspective ---- */

typedef struct perspective {
  double distortion_scale, p;
  sampling_t sampling;
} perspective_t;
static const ct_opt_t perspective_rows[] = {
    CT_OPT_DOUBLE(perspective_t, distortion_scale, "0.5", 0, 1,
                  "corners move inwards by up to this fraction of half the height and width"),
    CT_OPT_DOUBLE(perspective_t, p, "0.5", 0, 1, "probability"),
    SAMPLING_ROWS(perspective_t, "bilinear"), CT_OPT_END};

static int plan_perspective(ct__transform_t *s, const ct__transform_location_t *at)
{
  return plan_sampling(s, at, &((perspective_t *)s->o)->sampling);
}

void ct__image_corners(ct__image_size_t s, double distortion_scale, ct__draws_t *d,
                       int64_t to[4][2])
{
  for (int i = 0; i < 8; i++) {
    int64_t side = i % 2 ? s.h : s.w;
    int64_t bound = (int64_t)(distortion_scale * (double)(side / 2)) + 1;
    int is_far = i % 2 ? i / 2 >= 2 : i / 2 == 1 || i / 2 == 2;
    to[i / 2][i % 2] = (is_far ? side - bound : 0) + ct__draw_below(d, bound);
  }
}

static void random_perspective(const ct__transform_t *s, ct__draws_t *d, const float *in,
                               float *out, float *scratch)
{
  const perspective_t *o = s->o;
  ct__image_size_t size = ct__image_size(&s->in);
  int64_t to[4][2];
  ct__image_map_t map;
  int moves = ct__draw(d) < o->p;
  (void)scratch;
  if (moves) ct__image_corners(size, o->distortion_scale, d, to);
  if (moves && ct__image_perspective(size, (const int64_t(*)[2])to, &map))
    sample_by(s, &o->sampling, &map, NULL, in, out);
  else
    memcpy(out, in, (size_t)ct_shape_sample(&s->in) * sizeof *out);
}

const ct__transform_kind_t ct__transform_random_perspective = {
    .name = "random_perspective",
    .help = "moves the corners of the image inwards by random amounts",
    .flags = CT__TRANSFORM_RANDOM,
    .size = sizeof(perspective_t),
    .rows = perspective_rows,
    .plan = plan_perspective,
    .apply = random_perspective};

/* ---- elastic_transform ---- */

typedef struct elastic {
  double alpha, sigma;
  sampling_t sampling;
} elastic_t;
static const ct_opt_t elastic_rows[] = {
    CT_OPT_DOUBLE(elastic_t, alpha, "50", 0, 1e6,
                  "size of the displacements: random numbers of -alpha / 2 to alpha / 2 pixels "
                  "before they are blurred"),
    CT_OPT_DOUBLE(elastic_t, sigma, "5", 0, 1e4,
                  "standard deviation of the blur of the displacements, in pixels"),
    SAMPLING_ROWS(elastic_t, "bilinear"), CT_OPT_END};

/* Sets the width of the kernel of the blur. */
static ct__image_size_t kernel_of(const ct__transform_t *s, int64_t kernel[2])
{
  kernel[0] = kernel[1] = (int64_t)(8 * ((const elastic_t *)s->o)->sigma + 1) | 1;
  return (ct__image_size_t){1, s->in.dim[2], s->in.dim[3]};
}

static int fit_elastic(ct__transform_t *s)
{
  int64_t kernel[2];
  ct__image_size_t one = kernel_of(s, kernel);
  s->scratch = 2 * one.h * one.w + ct__image_blur_workspace(one, kernel);
  return kernel[0] / 2 < one.h && kernel[0] / 2 < one.w;
}

static int plan_elastic(ct__transform_t *s, const ct__transform_location_t *at)
{
  if (!fit_elastic(s))
    return ct__transform_refuse(at,
                                "sigma: 4 * sigma must be less than the sample, which is %lldx%lld",
                                (long long)s->in.dim[2], (long long)s->in.dim[3]);
  return plan_sampling(s, at, &((elastic_t *)s->o)->sampling);
}

static void elastic_transform(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                              float *scratch)
{
  static const ct__image_map_t same = {{1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const elastic_t *o = s->o;
  int64_t kernel[2];
  ct__image_size_t one = kernel_of(s, kernel);
  int64_t n = one.h * one.w;
  for (int k = 0; k < 2; k++) {
    float *shift = scratch + k * n;
    for (int64_t i = 0; i < n; i++)
      shift[i] = (float)ct__draw_in(d, -1, 1);
    if (o->sigma > 0) ct__image_blur(shift, one, kernel, o->sigma, scratch + 2 * n);
    for (int64_t i = 0; i < n; i++)
      shift[i] *= (float)(o->alpha / 2);
  }
  sample_by(s, &o->sampling, &same, scratch, in, out);
}

const ct__transform_kind_t ct__transform_elastic_transform = {
    .name = "elastic_transform",
    .help = "moves pixels by random displacements that vary smoothly",
    .flags = CT__TRANSFORM_RANDOM,
    .size = sizeof(elastic_t),
    .rows = elastic_rows,
    .plan = plan_elastic,
    .fit = fit_elastic,
    .apply = elastic_transform};
