/** \file kern/body_pool3.h  Inner loops of pooling over volumes: one volume of one vector of
 * channels.  Windows come from tables.  Module-internal. */
#include "cpu/kern/vec.h"

/* The three extents at a place of the volume: windows of an output, or windows over an input. */
typedef struct box {
  cpu__extent_t z, r, c;
} box_t;

INLINE box_t box_at(cpu__extent_t *const table[3], int64_t z, int64_t r, int64_t c)
{
  return (box_t){table[0][z], table[1][r], table[2][c]};
}

/* Where element (z, r, c) of a volume of this size lies. */
INLINE int64_t voxel(const int64_t size[3], int64_t z, int64_t r, int64_t c)
{
  return (z * size[1] + r) * size[2] + c;
}

/* The number of element (z, r, c) in the window of output (oz, or, oc), which may begin in the
 * padding. */
INLINE int32_t number(const cpu__pool3_t *p, int64_t z, int64_t r, int64_t c, int64_t oz,
                      int64_t orow, int64_t oc)
{
  int64_t a = z - oz * p->stride[0] + p->pad[0], b = r - orow * p->stride[1] + p->pad[1];
  return (int32_t)((a * p->kernel[1] + b) * p->kernel[2] + c - oc * p->stride[2] + p->pad[2]);
}

/* As window_max(). */
INLINE vec_t box_max(const cpu__pool3_t *p, cpu__pixels_t px, const void *x, int64_t oz,
                     int64_t orow, int64_t oc, mask_t *place)
{
  box_t b = box_at(p->window, oz, orow, oc);
  vec_t best = splat(-INFINITY);

  *place = (mask_t){0} + number(p, b.z.from, b.r.from, b.c.from, oz, orow, oc);
  for (int64_t z = b.z.from; z < b.z.to; z++) {
    for (int64_t r = b.r.from; r < b.r.to; r++) {
      int64_t in = voxel(p->in, z, r, 0);
      int32_t at = number(p, z, r, 0, oz, orow, oc);
      for (int32_t c = b.c.from; c < b.c.to; c++) {
        vec_t v = get(x, (in + c) * px.step, px.lanes);
        mask_t larger = (v > best) | (v != v);
        best = choose(larger, v, best);
        *place = (larger & (at + c)) | (~larger & *place);
      }
    }
  }
  return best;
}

INLINE void max3_line(const cpu__pool3_t *p, cpu__pixels_t px, const void *x, void *y,
                      uint8_t *place, int64_t oz, int64_t orow)
{
  int64_t at = voxel(p->out, oz, orow, 0);

  for (int64_t oc = 0; oc < p->out[2]; oc++, at++) {
    mask_t from;
    vec_t v = box_max(p, px, x, oz, orow, oc, &from);
    if (p->relu) {
      from |= (v <= 0) & CPU__POOL_NONE;
      v = relu_of(v);
    }
    put(y, at * px.step, v, px.lanes, 0);
    if (place) store_bytes(place + at * CPU__VW, from);
  }
}

static void max3(const cpu__pool3_t *pool, cpu__pixels_t px, const void *x, void *y, uint8_t *place)
{
  const cpu__pool3_t p = *pool;

  for (int64_t oz = 0; oz < p.out[0]; oz++) {
    for (int64_t orow = 0; orow < p.out[1]; orow++) {
      if (px.lanes == CPU__VW) {
        max3_line(&p, whole_pixels(px), x, y, place, oz, orow);
      } else {
        max3_line(&p, px, x, y, place, oz, orow);
      }
    }
  }
}

/* By input voxel: each is written once, with what all windows over it bring. */
INLINE vec_t max3_gradient(const cpu__pool3_t *p, cpu__pixels_t px, const uint8_t *place,
                           const void *dy, int64_t z, int64_t r, int64_t c)
{
  box_t over = box_at(p->cover, z, r, c);
  vec_t g = {0};

  for (int64_t oz = over.z.from; oz < over.z.to; oz++) {
    for (int64_t orow = over.r.from; orow < over.r.to; orow++) {
      for (int64_t oc = over.c.from; oc < over.c.to; oc++) {
        int64_t at = voxel(p->out, oz, orow, oc);
        mask_t from = load_bytes(place + at * CPU__VW);
        g += keep(from == number(p, z, r, c, oz, orow, oc), get(dy, at * px.step, px.lanes));
      }
    }
  }
  return g;
}

INLINE void max3_bwd_line(const cpu__pool3_t *p, cpu__pixels_t px, const uint8_t *place,
                          const void *dy, void *dx, int64_t z, int64_t r)
{
  int64_t to = voxel(p->in, z, r, 0);

  for (int64_t c = 0; c < p->in[2]; c++)
    put(dx, (to + c) * px.step, max3_gradient(p, px, place, dy, z, r, c), px.lanes, 0);
}

static void max3_bwd(const cpu__pool3_t *pool, cpu__pixels_t px, const uint8_t *place,
                     const void *dy, void *dx)
{
  const cpu__pool3_t p = *pool;

  for (int64_t z = 0; z < p.in[0]; z++) {
    for (int64_t r = 0; r < p.in[1]; r++) {
      if (px.lanes == CPU__VW) {
        max3_bwd_line(&p, whole_pixels(px), place, dy, dx, z, r);
      } else {
        max3_bwd_line(&p, px, place, dy, dx, z, r);
      }
    }
  }
}

INLINE vec_t box_sum(const cpu__pool3_t *p, cpu__pixels_t px, const void *x, box_t b)
{
  vec_t sum = {0};

  for (int64_t z = b.z.from; z < b.z.to; z++) {
    for (int64_t r = b.r.from; r < b.r.to; r++) {
      int64_t in = voxel(p->in, z, r, 0);
      for (int64_t c = b.c.from; c < b.c.to; c++)
        sum += get(x, (in + c) * px.step, px.lanes);
    }
  }
  return sum;
}

static void average3(const cpu__pool3_t *pool, cpu__pixels_t px, const void *x, void *y)
{
  const cpu__pool3_t p = *pool;
  int64_t at = 0;

  for (int64_t oz = 0; oz < p.out[0]; oz++) {
    for (int64_t orow = 0; orow < p.out[1]; orow++) {
      for (int64_t oc = 0; oc < p.out[2]; oc++, at += px.step) {
        vec_t sum = box_sum(&p, px, x, box_at(p.window, oz, orow, oc));
        put(y, at, sum * (p.share[0][oz] * p.share[1][orow] * p.share[2][oc]), px.lanes, 0);
      }
    }
  }
}

INLINE vec_t average3_gradient(const cpu__pool3_t *p, cpu__pixels_t px, const void *dy, box_t over)
{
  vec_t g = {0};

  for (int64_t oz = over.z.from; oz < over.z.to; oz++) {
    for (int64_t orow = over.r.from; orow < over.r.to; orow++) {
      int64_t from = voxel(p->out, oz, orow, 0);
      float share = p->share[0][oz] * p->share[1][orow];
      for (int64_t oc = over.c.from; oc < over.c.to; oc++)
        g += get(dy, (from + oc) * px.step, px.lanes) * (share * p->share[2][oc]);
    }
  }
  return g;
}

static void average3_bwd(const cpu__pool3_t *pool, cpu__pixels_t px, const void *dy, void *dx)
{
  const cpu__pool3_t p = *pool;
  int64_t at = 0;

  for (int64_t z = 0; z < p.in[0]; z++) {
    for (int64_t r = 0; r < p.in[1]; r++) {
      for (int64_t c = 0; c < p.in[2]; c++, at += px.step)
        put(dx, at, average3_gradient(&p, px, dy, box_at(p.cover, z, r, c)), px.lanes, 0);
    }
  }
}
