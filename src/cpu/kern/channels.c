/* A value per channel: added to an activation in any layout, and summed up.  Sums are made of parts
 * of the rows (pixels of all samples), whose number depends on the shape alone. */
#include "cpu/kern/channels.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

enum { PARTS_MAX = 16, STRIP = 16 };

static int is_low(const ct_shape_t *s)
{
  return s->dtype == CT_BF16;
}

/* Adds bias to `pixels` rows of `lanes` channels, of which `valid` exist. */
static void add_rows(int64_t pixels, int64_t lanes, int64_t valid, const float *restrict bias,
                     float *restrict y)
{
  if (lanes == 1) {
    for (int64_t p = 0; p < pixels; p++)
      y[p] += bias[0];
    return;
  }
  for (int64_t p = 0; p < pixels; p++)
    for (int64_t j = 0; j < valid; j++)
      y[p * lanes + j] += bias[j];
}

static void add_low_rows(int64_t pixels, int64_t lanes, int64_t valid, const float *bias,
                         uint16_t *y)
{
  for (int64_t p = 0; p < pixels; p++)
    for (int64_t j = 0; j < valid; j++)
      y[p * lanes + j] = ct_bf16_of(ct_bf16_float(y[p * lanes + j]) + bias[j]);
}

void cpu__channel_add(const ct_shape_t *s, const float *bias, void *y)
{
  cpu__view_t v = cpu__view(s);
  int64_t row = v.inner * v.lanes;
#pragma omp parallel for if (cpu__is_parallel(s)) schedule(static)
  for (int64_t i = 0; i < v.n * v.groups; i++) {
    int64_t first = i % v.groups * v.lanes, left = v.c - first;
    int64_t valid = left < v.lanes ? left : v.lanes;
    if (is_low(s))
      add_low_rows(v.inner, v.lanes, valid, bias + first, (uint16_t *)y + i * row);
    else
      add_rows(v.inner, v.lanes, valid, bias + first, (float *)y + i * row);
  }
}

static int64_t parts_of(const cpu__view_t *v)
{
  int64_t rows = v->n * v->inner;
  return rows < PARTS_MAX ? rows : PARTS_MAX;
}

size_t cpu__channel_sums_scratch(const ct_shape_t *s)
{
  cpu__view_t v = cpu__view(s);
  return (size_t)(parts_of(&v) * v.groups * v.lanes) * sizeof(double);
}

/* Adds rows to sums[lanes]. */
static void sum_rows(int64_t pixels, int64_t lanes, const float *restrict x, double *restrict sums)
{
  double strip[STRIP] = {0};
  int64_t whole = pixels / STRIP * STRIP;
  if (lanes > 1) {
    for (int64_t p = 0; p < pixels; p++)
      for (int64_t j = 0; j < lanes; j++)
        sums[j] += x[p * lanes + j];
    return;
  }
  for (int64_t p = 0; p < whole; p += STRIP)
    for (int j = 0; j < STRIP; j++)
      strip[j] += x[p + j];
  for (int64_t p = whole; p < pixels; p++)
    strip[p - whole] += x[p];
  for (int j = 0; j < STRIP; j++)
    sums[0] += strip[j];
}

static void sum_low_rows(int64_t pixels, int64_t lanes, const uint16_t *x, double *sums)
{
  for (int64_t p = 0; p < pixels; p++)
    for (int64_t j = 0; j < lanes; j++)
      sums[j] += ct_bf16_float(x[p * lanes + j]);
}

/* Sums rows from … to - 1 of the pixels of all samples, for one group of channels. */
static void sum_part(const ct_shape_t *s, const cpu__view_t *v, const void *x, int64_t group,
                     int64_t from, int64_t to, double *sums)
{
  for (int64_t j = 0; j < v->lanes; j++)
    sums[j] = 0;
  while (from < to) {
    int64_t image = from / v->inner, pixel = from % v->inner, count = v->inner - pixel;
    int64_t at = ((image * v->groups + group) * v->inner + pixel) * v->lanes;
    if (count > to - from) count = to - from;
    if (is_low(s))
      sum_low_rows(count, v->lanes, (const uint16_t *)x + at, sums);
    else
      sum_rows(count, v->lanes, (const float *)x + at, sums);
    from += count;
  }
}

void cpu__channel_sums(const ct_shape_t *s, const void *x, void *scratch, float *sums)
{
  cpu__view_t v = cpu__view(s);
  int64_t parts = parts_of(&v), rows = v.n * v.inner, wide = v.groups * v.lanes;
  double *part_sums = scratch;
#pragma omp parallel for if (cpu__is_parallel(s)) schedule(static)
  for (int64_t i = 0; i < parts * v.groups; i++) {
    int64_t part = i / v.groups, group = i % v.groups;
    sum_part(s, &v, x, group, rows * part / parts, rows * (part + 1) / parts,
             part_sums + part * wide + group * v.lanes);
  }
  for (int64_t c = 0; c < v.c; c++) {
    double sum = 0;
    for (int64_t part = 0; part < parts; part++)
      sum += part_sums[part * wide + c];
    sums[c] = (float)sum;
  }
}
