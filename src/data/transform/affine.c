/* to_tensor and normalize: affine maps that are folded into one. */
#include <float.h>
#include <math.h>

#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

void ct__transform_map_begin(ct__transform_map_t *m, int channels)
{
  *m = (ct__transform_map_t){.channels = channels};
  for (int c = 0; c < CT_AFFINE_MAX; c++)
    m->a[c] = 1;
}

void ct__transform_map_end(ct__transform_map_t *m, ct_affine_t *out)
{
  out->channels = m->varies ? m->channels : 1;
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    out->a[c] = (float)m->a[c];
    out->b[c] = (float)m->b[c];
  }
  ct__transform_map_begin(m, m->channels);
}

/* ---- to_tensor ---- */

static int to_tensor(const void *o, const ct__transform_location_t *at, ct__transform_map_t *m)
{
  (void)o;
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    m->a[c] /= at->full;
    m->b[c] /= at->full;
  }
  m->used = 1;
  return 0;
}

const ct__transform_kind_t ct__transform_to_tensor = {
    .name = "to_tensor",
    .help = "divides by 255, samples stored as uint16 by 65535: they become 0 to 1",
    .flags = CT__TRANSFORM_ANY_SHAPE,
    .map = to_tensor};

/* ---- normalize ---- */

typedef struct normalize {
  ct_opt_doubles_t mean, std;
  char *from;
} normalize_t;
static const ct_opt_t normalize_rows[] = {
    CT_OPT_DOUBLES(normalize_t, mean, NULL, "subtracted: one value, or one per channel"),
    CT_OPT_DOUBLES(normalize_t, std, NULL, "divided by: one value, or one per channel; not 0"),
    CT_OPT_TEXT(
        normalize_t, from, "",
        "instead of mean and std, read when a run starts for each array of data.input: "
        "`attributes` of the array in the first file of data.train, or an HDF5 file, as of "
        "the command stats, with the arrays ARRAY/mean and ARRAY/std, or these beside ARRAY "
        "or at the top. minval and maxval (or min and max) give (x - min) / (max - min)"),
    CT_OPT_END};

/* Checks that the option has one number for all channels or one for each. */
static int check_length(const ct__transform_map_t *m, const ct_opt_doubles_t *v,
                        const ct__transform_location_t *at, const char *key)
{
  if (v->n == 1 || (v->n == m->channels && v->n <= CT_AFFINE_MAX)) return 0;
  return ct__transform_refuse(
      at,
      "%s has %d values, expected one or one for each of the %d channels of a "
      "sample (up to %d)",
      key, v->n, m->channels, CT_AFFINE_MAX);
}

/* Returns 1 if float32 holds the number: not rounded to 0 or infinity, not denormal. */
static int is_float(double v)
{
  return fabs(v) >= FLT_MIN && fabs(v) <= FLT_MAX;
}

static int normalize(const void *options, const ct__transform_location_t *at,
                     ct__transform_map_t *m)
{
  const normalize_t *o = options;
  if (o->from[0]) return ct__transform_refuse(at, "from: is only read from a configuration");
  int rc = check_length(m, &o->mean, at, "mean");
  if (rc == 0) rc = check_length(m, &o->std, at, "std");
  if (rc != 0) return rc;
  m->varies |= o->mean.n > 1 || o->std.n > 1;
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    double mean = o->mean.v[c < o->mean.n ? c : 0], std = o->std.v[c < o->std.n ? c : 0];
    if (std == 0) return ct__transform_refuse(at, "std: divides by it: it must not be 0");
    if (!is_float(1 / std))
      return ct__transform_refuse(at, "std: its inverse, %g, must be between %.3g and %.3g",
                                  1 / std, (double)FLT_MIN, (double)FLT_MAX);
    m->a[c] /= std;
    m->b[c] = (m->b[c] - mean) / std;
    if (!is_float(m->a[c]) || !(fabs(m->b[c]) <= FLT_MAX))
      return ct__transform_refuse(
          at, "with what is before it makes %g * x + %g of a value x, which float32 cannot hold",
          m->a[c], m->b[c]);
  }
  m->used = 1;
  return 0;
}

const ct__transform_kind_t ct__transform_normalize = {.name = "normalize",
                                                      .help = "subtracts mean and divides by std",
                                                      .flags = CT__TRANSFORM_ANY_SHAPE,
                                                      .size = sizeof(normalize_t),
                                                      .rows = normalize_rows,
                                                      .map = normalize};

/* ---- after another transform ---- */

static void apply_affine(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                         float *scratch)
{
  const ct_affine_t *f = s->o;
  int64_t channels = s->in.dim[1], plane = ct_shape_sample(&s->in) / channels;
  (void)d;
  (void)in;
  (void)scratch;
  for (int64_t c = 0; c < channels; c++, out += plane) {
    float a = f->a[c % f->channels], b = f->b[c % f->channels];
    for (int64_t i = 0; i < plane; i++)
      out[i] = a * out[i] + b;
  }
}

const ct__transform_kind_t ct__transform_affine = {
    .name = "affine",
    .flags = CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_ANY_SHAPE | CT__TRANSFORM_COLOUR,
    .size = sizeof(ct_affine_t),
    .apply = apply_affine};
