/* Resizes uint8 images with interleaved channels: bilinear with antialiasing, in float32, rounded
 * once.
 *
 * First vertically, where whole rows are combined, then horizontally, several rows at a time. */
#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

enum { ROWS = CT__IMAGE_RESIZE_ROWS };

int64_t ct__image_resample_workspace(int64_t w, int channels)
{
  return 2 * ROWS * w * channels;
}

/* row = weighted sum of n rows of x */
static void down(const uint8_t *restrict x, int64_t stride, int n, const float *weight,
                 float *restrict row)
{
  for (int64_t i = 0; i < stride; i++)
    row[i] = weight[0] * (float)x[i];
  for (int k = 1; k < n; k++) {
    x += stride;
    for (int64_t i = 0; i < stride; i++)
      row[i] += weight[k] * (float)x[i];
  }
}

/* Interleaves rows, so that pixels of the same column are adjacent. */
static void interleave(const float *restrict from, int64_t w, float *restrict to)
{
  for (int64_t i = 0; i < w; i++)
    for (int r = 0; r < ROWS; r++)
      to[i * ROWS + r] = from[r * w + i];
}

/* Resizes horizontally. Weights add up to 1 and none is negative, so results are in 0 to 255. */
static void across(const float *restrict rows, int channels, const ct__image_taps_t *t, int n,
                   uint8_t *restrict y)
{
  const float *weight = t->weight;
  int64_t stride = t->outputs * channels;
  for (int64_t i = 0; i < t->outputs; i++, weight += t->span)
    for (int c = 0; c < channels; c++) {
      const float *x = rows + ((int64_t)t->first[i] * channels + c) * ROWS;
      float sum[ROWS] = {0};
      for (int32_t k = 0; k < t->n[i]; k++, x += channels * ROWS)
        for (int r = 0; r < ROWS; r++)
          sum[r] += weight[k] * x[r];
      for (int r = 0; r < n; r++)
        y[r * stride + i * channels + c] = (uint8_t)(sum[r] + 0.5F);
    }
}

void ct__image_resample(const uint8_t *x, int64_t w, int channels, const ct__image_taps_t t[2],
                        float *scratch, uint8_t *y)
{
  int64_t stride = w * channels;
  float *rows = scratch, *mixed = scratch + ROWS * stride;
  for (int64_t i = 0; i < t[0].outputs; i += ROWS) {
    int64_t left = t[0].outputs - i;
    int n = left < ROWS ? (int)left : ROWS;
    for (int r = 0; r < ROWS; r++) {
      int64_t k = i + (r < n ? r : n - 1); /* the last row fills the vector */
      down(x + t[0].first[k] * stride, stride, t[0].n[k], t[0].weight + k * t[0].span,
           rows + r * stride);
    }
    interleave(rows, stride, mixed);
    across(mixed, channels, &t[1], n, y);
    y += n * t[1].outputs * channels;
  }
}

int ct_image_resize(const ct_image_t *in, const ct_image_t *out)
{
  int64_t rows = ct__image_taps_workspace(in->height, out->height);
  int64_t columns = ct__image_taps_workspace(in->width, out->width);
  ct__image_taps_t t[2];
  float *space =
      ct_mem_array(rows + columns + ct__image_resample_workspace(in->width, in->channels),
                   sizeof *space, "weights of a resize");
  if (!space) return CT_ERR_NOMEM;
  ct__image_taps(in->height, out->height, space, &t[0]);
  ct__image_taps(in->width, out->width, space + rows, &t[1]);
  ct__image_resample(in->data, in->width, in->channels, t, space + rows + columns, out->data);
  ct_mem_free(space);
  return CT_OK;
}
