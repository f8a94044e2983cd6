/** \file conv/winograd_body.h  The transforms of conv/winograd_loops.h, for the instruction set of
 * the including file, which defines CPU__VW and CPU__ISA.  Module-internal.
 *
 * A transform of a square is one of each row, then one of each column. */
#include "cpu/conv/winograd_loops.h"

typedef float vec_t __attribute__((vector_size(CPU__VW * 4)));
typedef vec_t vec_mem_t __attribute__((aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* The points are 0, +-P, +-Q and infinity. */
#define P  0.625f
#define Q  1.5f
#define P2 (P * P)
#define Q2 (Q * Q)
/* Factors of G: 1 / (P2 Q2), and of the rows of P and Q. */
#define G0 (1 / (P2 * Q2))
#define GP (1 / (2 * P2 * (P2 - Q2)))
#define GQ (1 / (2 * Q2 * (Q2 - P2)))

/* ---- a line: numbers `from` vectors apart to numbers `to` vectors apart ---- */

/* B' */
INLINE void input_line(const vec_t *d, vec_t *v)
{
  vec_t even = d[4] - Q2 * d[2], odd = P * (d[3] - Q2 * d[1]);
  vec_t even_q = d[4] - P2 * d[2], odd_q = Q * (d[3] - P2 * d[1]);
  v[0] = d[4] + (P2 * Q2) * d[0] - (P2 + Q2) * d[2];
  v[1] = even + odd;
  v[2] = even - odd;
  v[3] = even_q + odd_q;
  v[4] = even_q - odd_q;
  v[5] = d[5] + (P2 * Q2) * d[1] - (P2 + Q2) * d[3];
}

/* A */
INLINE void spread_line(const vec_t *d, vec_t *v)
{
  vec_t even = d[0] + P2 * d[2], odd = P * (d[1] + P2 * d[3]);
  vec_t even_q = d[0] + Q2 * d[2], odd_q = Q * (d[1] + Q2 * d[3]);
  v[0] = d[0];
  v[1] = even + odd;
  v[2] = even - odd;
  v[3] = even_q + odd_q;
  v[4] = even_q - odd_q;
  v[5] = d[3];
}

/* G' */
INLINE void gather_line(const vec_t *u, vec_t *w)
{
  vec_t p = GP * (u[1] + u[2]), q = GQ * (u[3] + u[4]);
  w[0] = G0 * u[0] + p + q;
  w[1] = (GP * P) * (u[1] - u[2]) + (GQ * Q) * (u[3] - u[4]);
  w[2] = u[5] + P2 * p + Q2 * q;
}

/* ---- tiles ---- */

/* The pixels of a square, which may stand out of the image. */
typedef struct square {
  const vec_mem_t *at;
  int64_t width; /* vectors from one row to the next */
} square_t;

/* Copied into `room`, with zeros outside. */
static __attribute__((noinline)) square_t copied(const cpu__plane_t *p, int64_t top, int64_t left,
                                                 int side, vec_mem_t *room)
{
  for (int i = 0; i < side; i++)
    for (int j = 0; j < side; j++) {
      int64_t row = top + i, col = left + j;
      int inside = row >= 0 && row < p->h && col >= 0 && col < p->w;
      room[i * side + j] = inside ? ((const vec_mem_t *)p->data)[row * p->w + col] : (vec_mem_t){0};
    }
  return (square_t){room, side};
}

INLINE square_t square_of(const cpu__plane_t *p, int64_t top, int64_t left, int side,
                          vec_mem_t *room)
{
  if (top >= 0 && left >= 0 && top + side <= p->h && left + side <= p->w)
    return (square_t){(const vec_mem_t *)p->data + top * p->w + left, p->w};
  return copied(p, top, left, side, room);
}

static void input(const cpu__plane_t *x, int64_t top, int64_t left, float *v, int64_t stride)
{
  enum { N = CPU__PATCH };
  vec_mem_t room[N * N];
  vec_t half[N][N], line[N], out[N]; /* half: [column][row] */
  square_t s = square_of(x, top, left, N, room);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      line[j] = s.at[i * s.width + j];
    input_line(line, out);
    for (int j = 0; j < N; j++)
      half[j][i] = out[j];
  }
  for (int j = 0; j < N; j++) {
    input_line(half[j], out);
    for (int i = 0; i < N; i++)
      *(vec_mem_t *)(v + (i * N + j) * stride) = out[i];
  }
}

static void spread(const cpu__plane_t *dy, int64_t top, int64_t left, float *v, int64_t stride,
                   float *sums)
{
  enum { N = CPU__TILE, TO = CPU__PATCH };
  vec_mem_t room[N * N];
  vec_t half[TO][N], line[N], out[TO], sum = {0};
  square_t s = square_of(dy, top, left, N, room);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++)
      line[j] = s.at[i * s.width + j];
    sum += (line[0] + line[1]) + (line[2] + line[3]);
    spread_line(line, out);
    for (int j = 0; j < TO; j++)
      half[j][i] = out[j];
  }
  for (int j = 0; j < TO; j++) {
    spread_line(half[j], out);
    for (int i = 0; i < TO; i++)
      *(vec_mem_t *)(v + (i * TO + j) * stride) = out[i];
  }
  if (sums) *(vec_mem_t *)sums += sum;
}

/* One row of the gradient of the weights. */
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

#define CPU__PASTE(a, b)       a##b
#define CPU__WINOGRAD_FOR(isa) CPU__PASTE(cpu__winograd_, isa)

const cpu__winograd_loops_t CPU__WINOGRAD_FOR(CPU__ISA) = {
    .width = CPU__VW,
    .input = input,
    .spread = spread,
    .gather = gather,
};
