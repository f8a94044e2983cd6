/** \file conv/winograd_body.h  The transforms of conv/winograd_loops.h for the instruction set of
 * the including file, which defines CPU__VW and CPU__ISA.  Module-internal.
 *
 * A square is transformed column by column, then row by row. */
#include "cpu/conv/winograd_loops.h"
#ifdef __SSE2__
#  include <immintrin.h>
#endif

typedef float vec_t __attribute__((vector_size(CPU__VW * 4)));
typedef int32_t mask_t __attribute__((vector_size(CPU__VW * 4)));
typedef vec_t vec_mem_t __attribute__((aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* The interpolation points are 0, +-P, +-Q and infinity. */
#define P  0.625f
#define Q  1.5f
#define P2 (P * P)
#define Q2 (Q * Q)
/* Factors of the rows of G: 1 / (P2 * Q2) for the point 0, then the factors for ±P and ±Q. */
#define G0 (1 / (P2 * Q2))
#define GP (1 / (2 * P2 * (P2 - Q2)))
#define GQ (1 / (2 * Q2 * (Q2 - P2)))

/* ---- one-dimensional transforms ---- */

/* Computes the first or last row of B' x, from every other pixel. */
INLINE vec_t input_end(vec_t d0, vec_t d2, vec_t d4)
{
  return d4 + (P2 * Q2) * d0 - (P2 + Q2) * d2;
}

/* Computes the rows of B' x for the points +p and -p; q2: square of the other point. */
INLINE void input_pair(const vec_t d[4], float p, float q2, vec_t *plus, vec_t *minus)
{
  vec_t even = d[3] - q2 * d[1], odd = d[2] - q2 * d[0];
  *plus = even + p * odd;
  *minus = even - p * odd;
}

INLINE void input_line(const vec_t d[6], vec_t v[6])
{
  v[0] = input_end(d[0], d[2], d[4]);
  input_pair(d + 1, P, Q2, v + 1, v + 2);
  input_pair(d + 1, Q, P2, v + 3, v + 4);
  v[5] = input_end(d[1], d[3], d[5]);
}

/* Computes the rows of A dy for the points +p and -p. */
INLINE void spread_pair(const vec_t d[4], float p, vec_t *plus, vec_t *minus)
{
  vec_t even = d[0] + p * p * d[2], odd = d[1] + p * p * d[3];
  *plus = even + p * odd;
  *minus = even - p * odd;
}

INLINE void spread_line(const vec_t d[4], vec_t v[6])
{
  v[0] = d[0];
  spread_pair(d, P, v + 1, v + 2);
  spread_pair(d, Q, v + 3, v + 4);
  v[5] = d[3];
}

/* Computes w = G' u. */
INLINE void gather_line(const vec_t u[6], vec_t w[3])
{
  vec_t p = GP * (u[1] + u[2]), q = GQ * (u[3] + u[4]);
  w[0] = G0 * u[0] + p + q;
  w[1] = (GP * P) * (u[1] - u[2]) + (GQ * Q) * (u[3] - u[4]);
  w[2] = u[5] + P2 * p + Q2 * q;
}

/* Computes u = G w. */
INLINE void weights_line(const vec_t *w, vec_t *u)
{
  vec_t even = GP * w[0] + (GP * P2) * w[2], odd = (GP * P) * w[1];
  vec_t even_q = GQ * w[0] + (GQ * Q2) * w[2], odd_q = (GQ * Q) * w[1];
  u[0] = G0 * w[0];
  u[1] = even + odd;
  u[2] = even - odd;
  u[3] = even_q + odd_q;
  u[4] = even_q - odd_q;
  u[5] = w[2];
}

/* Compute the rows of A' m: output_even() those with even powers of the points, output_odd() those
 * with odd powers. */
INLINE void output_even(const vec_t m[5], vec_t *y0, vec_t *y2)
{
  vec_t p = m[1] + m[2], q = m[3] + m[4];
  *y0 = m[0] + p + q;
  *y2 = P2 * p + Q2 * q;
}

INLINE void output_odd(const vec_t m[5], vec_t *y1, vec_t *y3)
{
  vec_t p = P * (m[0] - m[1]), q = Q * (m[2] - m[3]);
  *y1 = p + q;
  *y3 = m[4] + P2 * p + Q2 * q;
}

/* ---- tiles ---- */

/* A square of pixels, which may extend beyond the image. */
typedef struct square {
  const vec_mem_t *at;
  int64_t width; /* row stride in vectors */
} square_t;

/* Copies the square into `workspace`, with zeros outside the image. */
static __attribute__((noinline)) square_t copied(const cpu__plane_t *p, int64_t top, int64_t left,
                                                 int side, vec_mem_t *workspace)
{
  int64_t first = left < 0 ? -left : 0, end = p->w - left < side ? p->w - left : side;
  for (int i = 0; i < side * side; i++)
    workspace[i] = (vec_mem_t){0};
  for (int64_t i = top < 0 ? -top : 0; i < side && top + i < p->h; i++)
    for (int64_t j = first; j < end; j++)
      workspace[i * side + j] = ((const vec_mem_t *)p->data)[(top + i) * p->w + left + j];
  return (square_t){workspace, side};
}

INLINE square_t square_of(const cpu__plane_t *p, int64_t top, int64_t left, int side,
                          vec_mem_t *workspace)
{
  if (top >= 0 && left >= 0 && top + side <= p->h && left + side <= p->w)
    return (square_t){(const vec_mem_t *)p->data + top * p->w + left, p->w};
  return copied(p, top, left, side, workspace);
}

/* Prefetches the first rows of the tile below: tiles are processed row by row, which hardware
 * prefetchers do not predict. */
INLINE void fetch_below(const cpu__plane_t *p, int64_t top, int64_t left)
{
  enum { PIXELS = 64 / (CPU__VW * 4) };
  for (int i = 0; i < CPU__TILE; i++)
    for (int j = 0; j < CPU__TILE; j += PIXELS)
      __builtin_prefetch(p->data + ((top + i) * p->w + left + j) * CPU__VW);
}

/* Stores one row of positions. */
INLINE void put_input(const vec_t line[6], float *v, int64_t stride)
{
  vec_t out[CPU__PATCH];
  input_line(line, out);
  for (int j = 0; j < CPU__PATCH; j++)
    *(vec_mem_t *)(v + j * stride) = out[j];
}

/* Stores the two rows of the points +-p, from the middle rows of the patch. */
INLINE void put_input_pair(square_t s, float p, float q2, float *v, int64_t stride)
{
  enum { N = CPU__PATCH };
  vec_t plus[N], minus[N];
  for (int j = 0; j < N; j++) {
    const vec_t middle[4] = {s.at[s.width + j], s.at[2 * s.width + j], s.at[3 * s.width + j],
                             s.at[4 * s.width + j]};
    input_pair(middle, p, q2, plus + j, minus + j);
  }
  put_input(plus, v, stride);
  put_input(minus, v + N * stride, stride);
}

/* Reads pixels from the image several times, so that only the result is stored. */
static void input(const cpu__plane_t *x, int64_t top, int64_t left, float *v, int64_t stride)
{
  enum { N = CPU__PATCH };
  vec_mem_t workspace[N * N];
  vec_t line[N];
  square_t s = square_of(x, top, left, N, workspace);
  fetch_below(x, top + N, left + 1);
  for (int j = 0; j < N; j++)
    line[j] = input_end(s.at[j], s.at[2 * s.width + j], s.at[4 * s.width + j]);
  put_input(line, v, stride);
  put_input_pair(s, P, Q2, v + N * stride, stride);
  put_input_pair(s, Q, P2, v + 3 * N * stride, stride);
  for (int j = 0; j < N; j++)
    line[j] = input_end(s.at[s.width + j], s.at[3 * s.width + j], s.at[5 * s.width + j]);
  put_input(line, v + 5 * N * stride, stride);
}

INLINE void put_spread(const vec_t line[4], float *v, int64_t stride)
{
  vec_t out[CPU__PATCH];
  spread_line(line, out);
  for (int j = 0; j < CPU__PATCH; j++)
    *(vec_mem_t *)(v + j * stride) = out[j];
}

INLINE void put_spread_pair(square_t s, float p, float *v, int64_t stride)
{
  enum { N = CPU__TILE };
  vec_t plus[N], minus[N];
  for (int j = 0; j < N; j++) {
    const vec_t all[N] = {s.at[j], s.at[s.width + j], s.at[2 * s.width + j], s.at[3 * s.width + j]};
    spread_pair(all, p, plus + j, minus + j);
  }
  put_spread(plus, v, stride);
  put_spread(minus, v + CPU__PATCH * stride, stride);
}

INLINE vec_t sum_of(square_t s)
{
  vec_t sum = {0};
  for (int i = 0; i < CPU__TILE; i++, s.at += s.width)
    sum += (s.at[0] + s.at[1]) + (s.at[2] + s.at[3]);
  return sum;
}

static void spread(const cpu__plane_t *dy, int64_t top, int64_t left, float *v, int64_t stride,
                   float *sums)
{
  enum { N = CPU__TILE, TO = CPU__PATCH };
  vec_mem_t workspace[N * N];
  vec_t line[N];
  square_t s = square_of(dy, top, left, N, workspace);
  fetch_below(dy, top + N, left);
  for (int j = 0; j < N; j++)
    line[j] = s.at[j];
  put_spread(line, v, stride);
  put_spread_pair(s, P, v + TO * stride, stride);
  put_spread_pair(s, Q, v + 3 * TO * stride, stride);
  for (int j = 0; j < N; j++)
    line[j] = s.at[3 * s.width + j];
  put_spread(line, v + 5 * TO * stride, stride);
  if (sums) *(vec_mem_t *)sums += sum_of(s);
}

/* Computes one row of the weight gradient. */
INLINE void gather_row(const cpu__gathered_t *g, const float *u, float *dw)
{
  enum { N = CPU__PATCH, TO = 3 };
  vec_t half[TO][N], line[N], out[TO];
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) {
      const float *at = u + (i * N + j) * g->position;
      line[j] = *(const vec_mem_t *)at;
      for (int p = 1; p < g->parts; p++)
        line[j] += *(const vec_mem_t *)(at + p * g->part);
    }
    gather_line(line, out);
    for (int j = 0; j < TO; j++)
      half[j][i] = out[j];
  }
  for (int j = 0; j < TO; j++) {
    gather_line(half[j], out);
    for (int i = 0; i < TO; i++)
      *(vec_mem_t *)(dw + (i * TO + j) * CPU__VW * CPU__VW) = out[i];
  }
}

static void gather(const cpu__gathered_t *g, float *dw)
{
  for (int i = 0; i < CPU__VW; i++)
    gather_row(g, g->u + i * g->row, dw + i * CPU__VW);
}

/* Non-temporal store. */
INLINE void stream(vec_mem_t *to, vec_t v)
{
#if CPU__VW == 16
  _mm512_stream_ps((float *)to, (__m512)v);
#elif defined(__AVX__)
  _mm256_stream_ps((float *)to, (__m256)v);
#else
  *to = v;
#endif
}

/* Stores one row of pixels. */
INLINE void put_output(const cpu__tile_sums_t *m, const vec_t line[6], int64_t cols, vec_mem_t *to)
{
  vec_t out[CPU__TILE], bias = {0};
  output_even(line, out, out + 2);
  output_odd(line + 1, out + 1, out + 3);
  if (m->bias) bias = *(const vec_mem_t *)m->bias;
  for (int j = 0; j < CPU__TILE; j++) {
    out[j] += bias;
    if (m->add && j < cols) out[j] += to[j];
    if (m->relu) out[j] = (vec_t)(~(out[j] <= 0) & (mask_t)out[j]);
  }
  for (int j = 0; j < CPU__TILE && j < cols; j++) {
    if (m->stream)
      stream(to + j, out[j]);
    else
      to[j] = out[j];
  }
}

/* Computes rows 0 and 2 (odd 0) or rows 1 and 3 (odd 1) of the output.  As in input(), reading the
 * sums twice is cheaper than storing intermediate results. */
INLINE void output_rows(const cpu__tile_sums_t *m, const int odd, int64_t rows, int64_t cols,
                        vec_mem_t *to, int64_t width)
{
  enum { N = CPU__PATCH };
  const int64_t next = N * m->stride;
  vec_t upper[N], lower[N], line[N];
  for (int j = 0; j < N; j++) {
    const float *at = m->at + j * m->stride + odd * next;
    for (int i = 0; i < N - 1; i++)
      line[i] = *(const vec_mem_t *)(at + i * next);
    if (odd)
      output_odd(line, upper + j, lower + j);
    else
      output_even(line, upper + j, lower + j);
  }
  if (odd < rows) put_output(m, upper, cols, to + odd * width);
  if (odd + 2 < rows) put_output(m, lower, cols, to + (odd + 2) * width);
}

static void output(const cpu__tile_sums_t *m, int64_t top, int64_t left, const cpu__plane_t *y)
{
  const int64_t rows = y->h - top, cols = y->w - left;
  vec_mem_t *to = (vec_mem_t *)y->data + top * y->w + left;
  if (rows >= CPU__TILE && cols >= CPU__TILE) {
    output_rows(m, 0, CPU__TILE, CPU__TILE, to, y->w);
    output_rows(m, 1, CPU__TILE, CPU__TILE, to, y->w);
  } else {
    output_rows(m, 0, rows, cols, to, y->w);
    output_rows(m, 1, rows, cols, to, y->w);
  }
}

/* Transposes a square. */
static void turn(const float *from, vec_t *to)
{
  for (int i = 0; i < CPU__VW; i++)
    for (int j = 0; j < CPU__VW; j++)
      to[j][i] = from[i * CPU__VW + j];
}

/* Transforms one row of the weights; taps (kernel elements) are `next` vectors apart. */
INLINE void weights_row(const vec_mem_t *w, int64_t next, float *u, int64_t stride)
{
  enum { N = 3, TO = CPU__PATCH };
  vec_t half[TO][N], line[N], out[TO];
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      line[j] = w[(i * N + j) * next];
    weights_line(line, out);
    for (int j = 0; j < TO; j++)
      half[j][i] = out[j];
  }
  for (int j = 0; j < TO; j++) {
    weights_line(half[j], out);
    for (int i = 0; i < TO; i++)
      *(vec_mem_t *)(u + (i * TO + j) * stride) = out[i];
  }
}

static void weights(const float *w, int turned, float *u, int64_t stride, int64_t row)
{
  enum { TAPS = 9 };
  vec_t workspace[TAPS][CPU__VW];
  const vec_mem_t *from = (const vec_mem_t *)w;
  for (int k = 0; turned && k < TAPS; k++)
    turn(w + k * CPU__VW * CPU__VW, workspace[TAPS - 1 - k]);
  for (int i = 0; i < CPU__VW; i++)
    weights_row((turned ? (const vec_mem_t *)workspace : from) + i, CPU__VW, u + i * row, stride);
}

#define CPU__PASTE(a, b)       a##b
#define CPU__WINOGRAD_FOR(isa) CPU__PASTE(cpu__winograd_, isa)

const cpu__winograd_loops_t CPU__WINOGRAD_FOR(CPU__ISA) = {
    .width = CPU__VW,
    .input = input,
    .spread = spread,
    .gather = gather,
    .output = output,
    .weights = weights,
};
