/* Resizing as Pillow 13 does it (src/libImaging/Resample.c): weights of a triangle that is as wide
 * as the scale, in whole numbers of 22 bits behind the point; two passes, each rounded to 8 bits,
 * so that their order shows in the last bit. */
#include "pack/resize.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { BITS = 32 - 8 - 2 };

/* Output i is the sum of n[i] inputs from first[i] on. */
typedef struct taps {
  int64_t outputs, span;
  int32_t *first, *n;
  int32_t *weight; /**< [outputs][span] */
} taps_t;

static void clear(taps_t *t)
{
  ct_mem_free(t->first);
  ct_mem_free(t->n);
  ct_mem_free(t->weight);
}

static double triangle(double x)
{
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

static void fill(taps_t *t, int64_t in, double scale, double support, double *weight)
{
  double narrow = scale > 1 ? 1 / scale : 1;
  for (int64_t i = 0; i < t->outputs; i++) {
    double centre = ((double)i + 0.5) * scale, sum = 0;
    int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
    if (first < 0) first = 0;
    if (end > in) end = in;
    for (int64_t k = first; k < end; k++) {
      weight[k - first] = triangle(((double)k - centre + 0.5) * narrow);
      sum += weight[k - first];
    }
    for (int64_t k = 0; k < end - first; k++) {
      double w = sum != 0 ? weight[k] / sum : 0;
      t->weight[i * t->span + k] = (int32_t)(w * (1 << BITS) + (w < 0 ? -0.5 : 0.5));
    }
    t->first[i] = (int32_t)first;
    t->n[i] = (int32_t)(end - first);
  }
}

static int make(int64_t in, int64_t out, taps_t *t)
{
  int rc = CT_OK;
  double scale = (double)in / (double)out, support = scale > 1 ? scale : 1;
  *t = (taps_t){.outputs = out, .span = 2 * (int64_t)ceil(support) + 1};
  t->first = ct_mem_array(out, sizeof *t->first, "weights of a resize");
  t->n = ct_mem_array(out, sizeof *t->n, "weights of a resize");
  t->weight = ct_mem_array(out * t->span, sizeof *t->weight, "weights of a resize");
  double *weight = ct_mem_array(t->span, sizeof *weight, "weights of a resize");
  if (!t->first || !t->n || !t->weight || !weight) CT_TRY(CT_ERR_NOMEM);
  fill(t, in, scale, support, weight);
out:
  ct_mem_free(weight);
  return rc;
}

static uint8_t rounded(int32_t sum)
{
  sum >>= BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void across(const ct__pack_image_t *in, const taps_t *t, uint8_t *to)
{
  int c = in->channels;
  for (int64_t y = 0; y < in->height; y++)
    for (int64_t i = 0; i < t->outputs; i++)
      for (int k = 0; k < c; k++, to++) {
        const uint8_t *from = in->data + (y * in->width + t->first[i]) * c + k;
        const int32_t *weight = t->weight + i * t->span;
        int32_t sum = 1 << (BITS - 1);
        for (int32_t n = 0; n < t->n[i]; n++)
          sum += from[n * c] * weight[n];
        *to = rounded(sum);
      }
}

static void down(const uint8_t *from, int64_t row, const taps_t *t, uint8_t *to)
{
  for (int64_t i = 0; i < t->outputs; i++)
    for (int64_t x = 0; x < row; x++, to++) {
      const uint8_t *at = from + t->first[i] * row + x;
      const int32_t *weight = t->weight + i * t->span;
      int32_t sum = 1 << (BITS - 1);
      for (int32_t n = 0; n < t->n[i]; n++)
        sum += at[n * row] * weight[n];
      *to = rounded(sum);
    }
}

/* Pillow before 13 always goes across first. */
static int is_down_first(const ct__pack_image_t *in, const ct__pack_image_t *out)
{
  int64_t fewer_rows = in->height - out->height, fewer_columns = in->width - out->width;
  return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

int ct__pack_resize(const ct__pack_image_t *in, const ct__pack_image_t *out)
{
  int rc = CT_OK, down_first = is_down_first(in, out);
  taps_t h = {0}, v = {0};
  ct__pack_image_t middle = {NULL, in->height, out->width, in->channels};
  if (down_first) middle.height = out->height, middle.width = in->width;
  middle.data = ct_mem_alloc((size_t)(middle.height * middle.width * in->channels), "an image");
  if (!middle.data) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(make(in->width, out->width, &h));
  CT_TRY(make(in->height, out->height, &v));
  if (down_first) {
    down(in->data, in->width * in->channels, &v, middle.data);
    across(&middle, &h, out->data);
  } else {
    across(in, &h, middle.data);
    down(middle.data, out->width * in->channels, &v, out->data);
  }
out:
  clear(&h);
  clear(&v);
  ct_mem_free(middle.data);
  return rc;
}
