/* Converts stored samples to float32 planes: type, order of dims and the affine map of the channels
 * in one pass over memory. */
#include "data/feed/convert.h"

#include <string.h>

/* The loops below dominate the time of a feed, so they are vectorised in a build with -O2 too. */
#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* y[i] = a * x[i * stride] + b */
typedef void (*plane_fn)(const void *stored, int64_t stride, int64_t count, float a, float b,
                         float *y);

#define PLANE(name, type)                                                               \
  static void name(const void *stored, int64_t stride, int64_t count, float a, float b, \
                   float *restrict y)                                                   \
  {                                                                                     \
    const type *restrict x = stored;                                                    \
    if (stride == 1)                                                                    \
      for (int64_t i = 0; i < count; i++)                                               \
        y[i] = a * (float)x[i] + b;                                                     \
    else                                                                                \
      for (int64_t i = 0; i < count; i++)                                               \
        y[i] = a * (float)x[i * stride] + b;                                            \
  }
PLANE(from_f32, float)
PLANE(from_f64, double)
PLANE(from_u8, uint8_t)
PLANE(from_i8, int8_t)
PLANE(from_i16, int16_t)
PLANE(from_i32, int32_t)
PLANE(from_i64, int64_t)

static const plane_fn planes[] = {
    [CT_F32] = from_f32, [CT_F64] = from_f64, [CT_U8] = from_u8,   [CT_I8] = from_i8,
    [CT_I16] = from_i16, [CT_I32] = from_i32, [CT_I64] = from_i64,
};

int ct__convert_can(ct_dtype_t type)
{
  return (size_t)type < sizeof planes / sizeof planes[0] && planes[type];
}

static int64_t frames_of(const ct_reader_channels_t *c)
{
  return c->frames > 1 ? c->frames : 1;
}

void ct__convert(const ct_dataset_t *d, const ct_shape_t *shape, int n, const void *stored,
                 float *x)
{
  const ct_affine_t *f = &d->affine;
  const char *from = stored;
  size_t item = ct_dtype_size(d->info.x.dtype);
  int64_t sample = ct_shape_sample(shape);
  int64_t channels = shape->dim[1], plane = sample / channels, channel = 0;
  plane_fn convert = planes[d->info.x.dtype];
  int mixed = d->info.channels_last && channels > 1;
  for (int g = 0; g < d->info.channels.groups; g++)
    mixed |= d->info.channels.last[g];
  if (f->channels == 1 && !mixed) {
    convert(from, 1, n * sample, f->a[0], f->b[0], x);
    return;
  }
  ct_reader_channels_t one = {.frames = 1, .groups = 1, .count = {channels}, .last = {(char)mixed}};
  const ct_reader_channels_t *parts = d->info.channels.groups ? &d->info.channels : &one;
  for (int64_t frame = 0; frame < n * frames_of(parts); frame++)
    for (int g = 0; g < parts->groups; g++) {
      int64_t count = parts->count[g];
      for (int64_t c = 0; c < count; c++, x += plane) {
        int64_t first = parts->last[g] ? c : c * plane, k = channel++ % f->channels;
        convert(from + (size_t)first * item, parts->last[g] ? count : 1, plane, f->a[k], f->b[k],
                x);
      }
      from += (size_t)(count * plane) * item;
    }
}

/* Without its sign, the bits of a float that is not finite are 0x7f800000 or more, so the sum below
 * sets the top bit.  It uses integers because compilers do not vectorise sums of floats. */
static int is_finite(const float *x, int64_t count)
{
  uint32_t top = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    top |= (bits & 0x7fffffff) + 0x00800000;
  }
  return !(top >> 31);
}

int ct__convert_check(const ct_dataset_t *d, const ct_shape_t *shape, int n, const float *x)
{
  int is_float = d->info.x.dtype == CT_F32 || d->info.x.dtype == CT_F64;
  int64_t sample = ct_shape_sample(shape);
  for (int i = 0; is_float && i < n; i++)
    if (!is_finite(x + i * sample, sample)) return i;
  return -1;
}
