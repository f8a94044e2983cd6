/** \file kern/body_pool.h  Inner loops of pooling: one image of one vector of channels.
 * Module-internal. */
#include "cpu/kern/vec.h"

/* The same pixels once the number of lanes is known to be the constant CPU__VW: loops over whole
 * vectors need no care for the rest then, and are compiled apart. */
INLINE cpu__pixels_t whole_pixels(cpu__pixels_t p)
{
  return (cpu__pixels_t){p.step, CPU__VW};
}

/* A window along one axis: where it begins, maybe in the padding, and its elements inside the
 * image. */
typedef struct span {
  int64_t origin;
  int from, to;
} span_t;

INLINE span_t span_of(const cpu__pool_t *p, int axis, int64_t out)
{
  int64_t at = out * p->stride[axis] - p->pad[axis], left = p->in[axis] - at;
  return (span_t){at, at < 0 ? (int)-at : 0, left < p->kernel[axis] ? (int)left : p->kernel[axis]};
}

/* The maximum and where it was first; NaN counts as largest, as in PyTorch.  origin: of the
 * window in x; width: of the whole window. */
INLINE vec_t window_max(const void *x, int64_t origin, int64_t row_step, cpu__pixels_t px,
                        span_t rows, span_t cols, int width, mask_t *place)
{
  vec_t best = splat(-INFINITY);

  *place = (mask_t){0} + (rows.from * width + cols.from);
  for (int row = rows.from; row < rows.to; row++) {
    for (int col = cols.from; col < cols.to; col++) {
      vec_t v = get(x, origin + row * row_step + col * px.step, px.lanes);
      mask_t larger = (v > best) | (v != v);
      best = choose(larger, v, best);
      *place = (larger & (row * width + col)) | (~larger & *place);
    }
  }
  return best;
}

/* The usual windows with constant bounds, for which the compiler unrolls the loops. */
INLINE vec_t any_window_max(const cpu__pool_t *p, cpu__pixels_t px, const void *x, span_t rows,
                            span_t cols, mask_t *place)
{
  const span_t two = {0, 0, 2}, three = {0, 0, 3};
  int64_t row_step = p->in[1] * px.step, origin = rows.origin * row_step + cols.origin * px.step;
  int height = rows.to - rows.from, width = cols.to - cols.from;

  if (p->kernel[0] == 2 && p->kernel[1] == 2 && height == 2 && width == 2)
    return window_max(x, origin, row_step, px, two, two, 2, place);
  if (p->kernel[0] == 3 && p->kernel[1] == 3 && height == 3 && width == 3)
    return window_max(x, origin, row_step, px, three, three, 3, place);
  return window_max(x, origin, row_step, px, rows, cols, p->kernel[1], place);
}

INLINE void max_image(const cpu__pool_t *p, cpu__pixels_t px, const void *x, void *y,
                      uint8_t *place, int stream)
{
  for (int64_t row = 0; row < p->out[0]; row++) {
    span_t rows = span_of(p, 0, row);
    for (int64_t col = 0; col < p->out[1]; col++) {
      int64_t at = row * p->out[1] + col;
      mask_t from;
      vec_t v = any_window_max(p, px, x, rows, span_of(p, 1, col), &from);
      if (p->relu) {
        from |= (v <= 0) & CPU__POOL_NONE;
        v = relu_of(v);
      }
      put(y, at * px.step, v, px.lanes, stream);
      if (place) store_bytes(place + at * CPU__VW, from);
    }
  }
  put_end(stream);
}

static void max(const cpu__pool_t *pool, cpu__pixels_t px, const void *x, void *y, uint8_t *place,
                int stream)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW) {
    max_image(&p, whole_pixels(px), x, y, place, stream);
  } else {
    max_image(&p, px, x, y, place, stream);
  }
}

/* Windows that tile the image: each output brings its gradient to its own pixels. */
INLINE void max_bwd_tiles(const cpu__pool_t *p, const int kernel[2], cpu__pixels_t px,
                          const uint8_t *place, const void *dy, void *dx, int stream)
{
  for (int64_t row = 0; row < p->out[0]; row++) {
    for (int64_t col = 0; col < p->out[1]; col++) {
      int64_t at = row * p->out[1] + col;
      int64_t to = (row * kernel[0] * p->in[1] + col * kernel[1]) * px.step;
      mask_t from = load_bytes(place + at * CPU__VW);
      vec_t g = get(dy, at * px.step, px.lanes);
      for (int r = 0; r < kernel[0]; r++) {
        for (int c = 0; c < kernel[1]; c++)
          put(dx, to + (r * p->in[1] + c) * px.step, keep(from == r * kernel[1] + c, g), px.lanes,
              stream);
      }
    }
  }
}

/* By input pixel: each is written once, with what all windows over it bring. */
INLINE vec_t pixel_gradient(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *place,
                            const void *dy, int64_t row, int64_t col)
{
  const int32_t *rows = p->cover[0][row], *cols = p->cover[1][col];
  vec_t g = {0};

  for (int64_t r = rows[0]; r <= rows[1]; r++) {
    int64_t first = (row - r * p->stride[0] + p->pad[0]) * p->kernel[1] + col + p->pad[1];
    for (int64_t c = cols[0]; c <= cols[1]; c++) {
      int64_t at = r * p->out[1] + c;
      mask_t from = load_bytes(place + at * CPU__VW);
      g += keep(from == (int32_t)(first - c * p->stride[1]), get(dy, at * px.step, px.lanes));
    }
  }
  return g;
}

INLINE void max_bwd_pixels(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *place,
                           const void *dy, void *dx, int stream)
{
  int64_t at = 0;

  for (int64_t row = 0; row < p->in[0]; row++) {
    for (int64_t col = 0; col < p->in[1]; col++, at += px.step)
      put(dx, at, pixel_gradient(p, px, place, dy, row, col), px.lanes, stream);
  }
}

INLINE void max_bwd_image(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *place,
                          const void *dy, void *dx, int stream)
{
  if (p->tiles && p->kernel[0] == 2 && p->kernel[1] == 2) {
    max_bwd_tiles(p, (int[]){2, 2}, px, place, dy, dx, stream);
  } else if (p->tiles) {
    max_bwd_tiles(p, p->kernel, px, place, dy, dx, stream);
  } else {
    max_bwd_pixels(p, px, place, dy, dx, stream);
  }
  put_end(stream);
}

static void max_bwd(const cpu__pool_t *pool, cpu__pixels_t px, const uint8_t *place, const void *dy,
                    void *dx, int stream)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW) {
    max_bwd_image(&p, whole_pixels(px), place, dy, dx, stream);
  } else {
    max_bwd_image(&p, px, place, dy, dx, stream);
  }
}

INLINE void average_image(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *x,
                          void *y)
{
  for (int64_t row = 0; row < p->out[0]; row++) {
    span_t rows = span_of(p, 0, row);
    for (int64_t col = 0; col < p->out[1]; col++) {
      span_t cols = span_of(p, 1, col);
      int64_t origin = rows.origin * p->in[1] + cols.origin;
      vec_t sum = {0};
      for (int r = rows.from; r < rows.to; r++) {
        for (int c = cols.from; c < cols.to; c++)
          sum += get(x, (origin + r * p->in[1] + c) * px.step, px.lanes);
      }
      sum *= p->share[0][row] * p->share[1][col];
      put(y, (row * p->out[1] + col) * py.step, sum, py.lanes, 0);
    }
  }
}

static void average(const cpu__pool_t *pool, cpu__pixels_t px, cpu__pixels_t py, const void *x,
                    void *y)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW && py.lanes == CPU__VW) {
    average_image(&p, whole_pixels(px), whole_pixels(py), x, y);
  } else {
    average_image(&p, px, py, x, y);
  }
}

INLINE void average_bwd_image(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py,
                              const void *dy, void *dx)
{
  int64_t at = 0;

  for (int64_t row = 0; row < p->in[0]; row++) {
    const int32_t *rows = p->cover[0][row];
    for (int64_t col = 0; col < p->in[1]; col++, at += px.step) {
      const int32_t *cols = p->cover[1][col];
      vec_t g = {0};
      for (int64_t r = rows[0]; r <= rows[1]; r++) {
        for (int64_t c = cols[0]; c <= cols[1]; c++)
          g += get(dy, (r * p->out[1] + c) * py.step, py.lanes) * (p->share[0][r] * p->share[1][c]);
      }
      put(dx, at, g, px.lanes, 0);
    }
  }
}

static void average_bwd(const cpu__pool_t *pool, cpu__pixels_t px, cpu__pixels_t py, const void *dy,
                        void *dx)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW && py.lanes == CPU__VW) {
    average_bwd_image(&p, whole_pixels(px), whole_pixels(py), dy, dx);
  } else {
    average_bwd_image(&p, px, py, dy, dx);
  }
}
