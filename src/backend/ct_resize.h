/** \file ct_resize.h  How UPSAMPLE makes an output along one dim: weights of neighbouring inputs.
 * Layer 1; for C and kernels.
 *
 * Coordinates as in torch.nn.functional.interpolate. */
#ifndef CT_RESIZE_H
#define CT_RESIZE_H
#include <math.h>

#include "base/ct_types.h"

enum { CT_RESIZE_TAPS = 4 };

/** Modes of UPSAMPLE, as in torch.nn.functional.interpolate. */
typedef enum {
  CT_RESIZE_NEAREST,
  CT_RESIZE_LINEAR, /**< linear, bilinear, trilinear */
  CT_RESIZE_NEAREST_EXACT,
  CT_RESIZE_BICUBIC, /**< images only */
  CT_RESIZE_COUNT
} ct_resize_t;

/** One dim of a resize. */
typedef struct ct_resize_dim {
  int64_t in, out;
  ct_resize_t mode;
  int corners;  /**< 1: align_corners */
  double scale; /**< factor that maps coordinates; 0: out / in */
} ct_resize_dim_t;

/** `taps` inputs of an output; an input may occur twice at a border. */
typedef struct ct_resize_taps {
  int taps;
  int64_t in[CT_RESIZE_TAPS];
  double weight[CT_RESIZE_TAPS];
} ct_resize_tap_t;

/** Returns the inputs from output to output. */
CT_INLINE double ct_resize_step(const ct_resize_dim_t *d)
{
  if (d->corners) return d->out > 1 ? (double)(d->in - 1) / (double)(d->out - 1) : 0;
  return d->scale > 0 ? 1 / d->scale : (double)d->in / (double)d->out;
}

/** Returns the coordinate of output \a o among the inputs. */
CT_INLINE double ct_resize_at(const ct_resize_dim_t *d, int64_t o)
{
  double step = ct_resize_step(d), at = (double)o + (d->mode == CT_RESIZE_NEAREST ? 0 : 0.5);
  if (d->corners) return step * (double)o;
  return step * at - (d->mode == CT_RESIZE_LINEAR || d->mode == CT_RESIZE_BICUBIC ? 0.5 : 0);
}

CT_INLINE int64_t ct__resize_inside(const ct_resize_dim_t *d, int64_t i)
{
  return i < 0 ? 0 : i < d->in ? i : d->in - 1;
}

/** Sets the weights of the cubic convolution (Keys, 1981; a = -0.75) at \a t from the second of
 * four points. */
CT_INLINE void ct__resize_cubic(double t, double w[CT_RESIZE_TAPS])
{
  double a = -0.75;
  for (int k = 0; k < CT_RESIZE_TAPS; k++) {
    double x = fabs(t + 1 - k);
    w[k] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((x - 5) * x + 8) * x * a - 4 * a;
  }
}

/** Returns the inputs of output \a o and their weights. */
CT_INLINE ct_resize_tap_t ct_resize_tap(const ct_resize_dim_t *d, int64_t o)
{
  ct_resize_tap_t t = {1, {0}, {1}};
  double at = ct_resize_at(d, o), below;
  int whole = d->out % d->in == 0 &&
              (d->scale == 0 || d->scale == (double)d->out / (double)d->in); /* no rounding */
  if (d->mode == CT_RESIZE_NEAREST || d->mode == CT_RESIZE_NEAREST_EXACT) {
    t.in[0] = whole ? o / (d->out / d->in) : ct__resize_inside(d, (int64_t)floor(at));
    return t;
  }
  if (d->mode == CT_RESIZE_LINEAR && at < 0) at = 0;
  below = floor(at);
  if (d->mode == CT_RESIZE_LINEAR) {
    t.taps = 2;
    t.in[0] = ct__resize_inside(d, (int64_t)below);
    t.in[1] = ct__resize_inside(d, t.in[0] + 1);
    t.weight[1] = t.in[1] > t.in[0] ? at - below : 0;
    t.weight[0] = 1 - t.weight[1];
    return t;
  }
  t.taps = CT_RESIZE_TAPS;
  for (int k = 0; k < CT_RESIZE_TAPS; k++)
    t.in[k] = ct__resize_inside(d, (int64_t)below - 1 + k);
  ct__resize_cubic(at - below, t.weight);
  return t;
}

/** Returns the weight of input \a i in output \a o. */
CT_INLINE double ct_resize_share(const ct_resize_dim_t *d, int64_t o, int64_t i)
{
  ct_resize_tap_t t = ct_resize_tap(d, o);
  double sum = 0;
  for (int k = 0; k < t.taps; k++)
    if (t.in[k] == i) sum += t.weight[k];
  return sum;
}

/** Sets a range of outputs, *from … *to - 1, that has all those with input \a i. */
CT_INLINE void ct_resize_outputs(const ct_resize_dim_t *d, int64_t i, int64_t *from, int64_t *to)
{
  double step = ct_resize_step(d), reach = 3;
  *from = 0;
  *to = d->out;
  if (step <= 0) return;
  if (i > 0 && ((double)i - reach) / step > 1) *from = (int64_t)(((double)i - reach) / step) - 1;
  if (i < d->in - 1 && ((double)i + reach) / step + 2 < (double)d->out)
    *to = (int64_t)(((double)i + reach) / step) + 2;
  if (*from > d->out) *from = d->out;
}

#endif
