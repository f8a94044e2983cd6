/** \file conv/few_channels_pixels.h  AVX-512 loops of conv/few_channels_loops.h for a plain image
 * on one side and up to 8 channels on the other.  Module-internal.
 *
 * A vector of 8 channels would fill half a register, and some of it may be padding.  So a vector
 * holds 16 pixels of a row, and is transposed when it is stored or loaded.  Lanes beyond the row
 * are neither read nor written. */
#include "cpu/conv/few_channels_loops.h"
#include <immintrin.h>

#define LOOP static inline __attribute__((always_inline))
/* Loops over accumulators must be unrolled: else the compiler does not keep the accumulators in
 * registers. */
#define UNROLLED _Pragma("GCC unroll 8")

/* Returns the mask of the first `count` of 16 lanes; count may be negative or above 16. */
LOOP __mmask16 lanes(int64_t count)
{
  return count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* Transposes 8 vectors of 16 pixels to 16 pixels of 8 channels, two in a vector, or back: the same
 * steps in reverse order. */
LOOP void turn_quarters(__m512 *a, __m512 *b, __m512 *c, __m512 *d)
{
  __m512 ab = _mm512_unpacklo_ps(*a, *b), ab2 = _mm512_unpackhi_ps(*a, *b);
  __m512 cd = _mm512_unpacklo_ps(*c, *d), cd2 = _mm512_unpackhi_ps(*c, *d);
  *a = _mm512_shuffle_ps(ab, cd, 0x44);
  *b = _mm512_shuffle_ps(ab, cd, 0xee);
  *c = _mm512_shuffle_ps(ab2, cd2, 0x44);
  *d = _mm512_shuffle_ps(ab2, cd2, 0xee);
}

/* Transposes four vectors of four quarters each. */
LOOP void swap_quarters(__m512 *a, __m512 *b, __m512 *c, __m512 *d)
{
  __m512 ab = _mm512_shuffle_f32x4(*a, *b, 0x44), ab2 = _mm512_shuffle_f32x4(*a, *b, 0xee);
  __m512 cd = _mm512_shuffle_f32x4(*c, *d, 0x44), cd2 = _mm512_shuffle_f32x4(*c, *d, 0xee);
  *a = _mm512_shuffle_f32x4(ab, cd, 0x88);
  *b = _mm512_shuffle_f32x4(ab, cd, 0xdd);
  *c = _mm512_shuffle_f32x4(ab2, cd2, 0x88);
  *d = _mm512_shuffle_f32x4(ab2, cd2, 0xdd);
}

/* Stores `count` pixels of 8 channels to `to`. */
LOOP void put_pixels(__m512 v[8], float *to, int64_t count)
{
  turn_quarters(v, v + 1, v + 2, v + 3);
  turn_quarters(v + 4, v + 5, v + 6, v + 7);
  UNROLLED
  for (int i = 0; i < 4; i += 2) { /* pixels i and i + 1, and every fourth after each */
    __m512 q[4] = {v[i], v[i + 4], v[i + 1], v[i + 5]};
    swap_quarters(q, q + 1, q + 2, q + 3);
    UNROLLED
    for (int k = 0; k < 4; k++)
      _mm512_mask_storeu_ps(to + (4 * k + i) * 8, lanes((count - 4 * k - i) * 8), q[k]);
  }
}

/* Loads `count` pixels; the others are 0. */
LOOP void get_pixels(const float *from, int64_t count, __m512 v[8])
{
  UNROLLED
  for (int i = 0; i < 4; i += 2) {
    __m512 q[4];
    UNROLLED
    for (int k = 0; k < 4; k++)
      q[k] = _mm512_maskz_loadu_ps(lanes((count - 4 * k - i) * 8), from + (4 * k + i) * 8);
    swap_quarters(q, q + 1, q + 2, q + 3);
    v[i] = q[0];
    v[i + 4] = q[1];
    v[i + 1] = q[2];
    v[i + 5] = q[3];
  }
  turn_quarters(v, v + 1, v + 2, v + 3);
  turn_quarters(v + 4, v + 5, v + 6, v + 7);
}

/* ---- correlate ---- */

/* Computes `count` pixels of one row of out, up to two vectors. */
LOOP void correlate_some(const cpu__few_task_t *a, const float *in, float *out, int64_t count,
                         const int outs, const int vecs)
{
  __m512 sum[8][2], x[2];
  const __m512 zero = _mm512_setzero_ps();
  const float *w = a->w;
  UNROLLED
  for (int o = 0; o < outs; o++)
    sum[o][0] = sum[o][1] = _mm512_set1_ps(a->bias[o]);
  for (int c = 0; c < a->in.channels; c++) {
    const float *from = in + c * a->in.group;
    for (int u = 0; u < a->kernel; u++, from += a->in.width)
      for (int v = 0; v < a->kernel; v++, w += 8) {
        UNROLLED
        for (int k = 0; k < vecs; k++)
          x[k] = _mm512_maskz_loadu_ps(lanes(count - 16 * k), from + v + 16 * k);
        UNROLLED
        for (int o = 0; o < outs; o++)
          UNROLLED
        for (int k = 0; k < vecs; k++)
          sum[o][k] = _mm512_fmadd_ps(_mm512_set1_ps(w[o]), x[k], sum[o][k]);
      }
  }
  UNROLLED
  for (int k = 0; k < vecs; k++) {
    __m512 all[8];
    UNROLLED
    for (int o = 0; o < 8; o++) {
      all[o] = o < outs ? sum[o][k] : zero;
      if (a->relu) /* NaN stays NaN */
        all[o] = _mm512_mask_mov_ps(all[o], _mm512_cmp_ps_mask(all[o], zero, _CMP_LE_OQ), zero);
    }
    put_pixels(all, out + 16 * k * 8, count - 16 * k);
  }
}

LOOP void correlate_outs(const cpu__few_task_t *a, const int outs)
{
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j += 32) {
      const float *in = a->in.data + i * a->in.width + j;
      float *out = a->out + (i * a->cols + j) * 8;
      if (a->cols - j > 16)
        correlate_some(a, in, out, a->cols - j, outs, 2);
      else
        correlate_some(a, in, out, a->cols - j, outs, 1);
    }
}

static void correlate_pixels(const cpu__few_task_t *a)
{
  switch (a->outs) {
#define CASE(n)           \
  case n:                 \
    correlate_outs(a, n); \
    break;
    CASE(1)
    CASE(2)
    CASE(3)
    CASE(4)
    CASE(5)
    CASE(6)
    CASE(7)
#undef CASE
  default:
    correlate_outs(a, 8);
  }
}

/* ---- gradient ---- */

/* Converts out to planes of whole vectors in a->workspace, and sums it up. */
static void make_planes(const cpu__few_task_t *a, int64_t width, int64_t plane)
{
  __m512 sum[8], v[8];
  UNROLLED
  for (int o = 0; o < 8; o++)
    sum[o] = _mm512_setzero_ps();
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j += 16) {
      get_pixels(a->out + (i * a->cols + j) * 8, a->cols - j, v);
      UNROLLED
      for (int o = 0; o < 8; o++) {
        sum[o] = _mm512_add_ps(sum[o], v[o]);
        _mm512_storeu_ps(a->workspace + o * plane + i * width + j, v[o]);
      }
    }
  UNROLLED
  for (int o = 0; o < 8; o++)
    a->bias[o] += _mm512_reduce_add_ps(sum[o]);
}

/* Adds the weight gradient of one row of the kernel, for one channel of in and some channels of
 * out, whose planes begin at dy. */
LOOP void row_of_taps(const cpu__few_task_t *a, const float *in, const float *dy, float *dw,
                      int64_t width, int64_t plane, const int outs, const int kernel)
{
  __m512 sum[4][5], g[4];
  UNROLLED
  for (int o = 0; o < outs; o++)
    UNROLLED
  for (int v = 0; v < kernel; v++)
    sum[o][v] = _mm512_setzero_ps();
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j += 16) {
      __mmask16 there = lanes(a->cols - j);
      UNROLLED
      for (int o = 0; o < outs; o++)
        g[o] = _mm512_loadu_ps(dy + o * plane + i * width + j);
      UNROLLED
      for (int v = 0; v < kernel; v++) {
        __m512 x = _mm512_maskz_loadu_ps(there, in + i * a->in.width + j + v);
        UNROLLED
        for (int o = 0; o < outs; o++)
          sum[o][v] = _mm512_fmadd_ps(g[o], x, sum[o][v]);
      }
    }
  UNROLLED
  for (int v = 0; v < kernel; v++)
    UNROLLED
  for (int o = 0; o < outs; o++)
    dw[v * 8 + o] += _mm512_reduce_add_ps(sum[o][v]);
}

LOOP void all_taps(const cpu__few_task_t *a, int64_t width, int64_t plane, int first,
                   const int outs, const int kernel)
{
  for (int c = 0; c < a->in.channels; c++)
    for (int u = 0; u < kernel; u++)
      row_of_taps(a, a->in.data + c * a->in.group + u * a->in.width, a->workspace + first * plane,
                  a->w + (c * kernel + u) * kernel * 8 + first, width, plane, outs, kernel);
}

static void some_outs(const cpu__few_task_t *a, int64_t width, int64_t plane, int first, int outs)
{
  switch (a->kernel * 8 + outs) {
#define CASE(k, n)                          \
  case k * 8 + n:                           \
    all_taps(a, width, plane, first, n, k); \
    break;
    CASE(3, 1)
    CASE(3, 2)
    CASE(3, 3)
    CASE(3, 4)
    CASE(5, 1)
    CASE(5, 2)
    CASE(5, 3)
    CASE(5, 4)
#undef CASE
  }
}

static void gradient_pixels(const cpu__few_task_t *a)
{
  int64_t width = (a->cols + 15) / 16 * 16, plane = a->rows * width;
  int some = a->outs > 4 ? (a->outs + 1) / 2 : a->outs;
  make_planes(a, width, plane);
  for (int first = 0; first < a->outs; first += some)
    some_outs(a, width, plane, first, some < a->outs - first ? some : a->outs - first);
}

#undef LOOP
#undef UNROLLED
