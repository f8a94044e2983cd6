/** \file kern/body_pool.h  Inner loops of pooling: one volume (or image) of one vector of channels.
 * Module-internal. */
#include "cpu/kern/vec.h"

/* Returns a copy of p whose number of lanes is the constant CPU__VW: the compiler makes a separate
 * loop for whole vectors, without code for the remainder. */
INLINE cpu__pixels_t whole_pixels(cpu__pixels_t p)
{
  return (cpu__pixels_t){p.step, CPU__VW};
}

/* Returns the offset of element (z, r, c) of a volume of this size. */
INLINE int64_t voxel(const int64_t size[3], int64_t z, int64_t r, int64_t c)
{
  return (z * size[1] + r) * size[2] + c;
}

/* ---- maximum ---- */

/* Returns an arg-max index that no window element has.  It marks outputs that the fused ReLU
 * zeroed. */
INLINE mask_t no_argmax(const cpu__pool_t *p)
{
  return (mask_t){0} + (p->wide ? -1 : CPU__POOL_BYTE_ARGMAX);
}

/* Stores the arg-max indices of output `at`. */
INLINE void store_argmax(const cpu__pool_t *p, uint8_t *argmax, int64_t at, mask_t v)
{
  if (p->wide)
    memcpy(argmax + at * (int64_t)sizeof v, &v, sizeof v);
  else
    store_bytes(argmax + at * CPU__VW, v);
}

INLINE mask_t load_argmax(const cpu__pool_t *p, const uint8_t *argmax, int64_t at)
{
  mask_t v;
  if (!p->wide) return load_bytes(argmax + at * CPU__VW);
  memcpy(&v, argmax + at * (int64_t)sizeof v, sizeof v);
  return v;
}

/* A window along one axis: its origin, which may be in the padding, and its elements inside the
 * volume. */
typedef struct span {
  int64_t origin;
  int from, to;
} span_t;

INLINE span_t span_of(const cpu__pool_t *p, int axis, int64_t out)
{
  int64_t at = out * p->stride[axis] - p->pad[axis], left = p->in[axis] - at;
  return (span_t){at, at < 0 ? (int)-at : 0, left < p->kernel[axis] ? (int)left : p->kernel[axis]};
}

/* Returns the maximum of a window and stores its first index; NaN counts as largest, as in PyTorch.
 * origin: offset in x of the window's first element; kernel: size of the whole window. */
INLINE vec_t window_max(const cpu__pool_t *p, cpu__pixels_t px, const void *x, int64_t origin,
                        const span_t span[3], const int kernel[3], mask_t *argmax)
{
  int64_t line = p->in[2] * px.step, slice = p->in[1] * line;
  vec_t best = splat(-INFINITY);

  *argmax = (mask_t){0} + ((span[0].from * kernel[1] + span[1].from) * kernel[2] + span[2].from);
  for (int z = span[0].from; z < span[0].to; z++) {
    for (int r = span[1].from; r < span[1].to; r++) {
      for (int c = span[2].from; c < span[2].to; c++) {
        vec_t v = get(x, origin + z * slice + r * line + c * px.step, px.lanes);
        mask_t larger = (v > best) | (v != v);
        best = choose(larger, v, best);
        *argmax = (larger & ((z * kernel[1] + r) * kernel[2] + c)) | (~larger & *argmax);
      }
    }
  }
  return best;
}

/* window_max() for a whole window of size x size pixels of an image.  The index is searched after
 * the maximum is known, from the last element to the first, so that comparisons do not depend on
 * each other. */
INLINE vec_t square_max(const cpu__pool_t *p, cpu__pixels_t px, const void *x, int64_t origin,
                        int size, mask_t *argmax)
{
  const span_t one = {0, 0, 1}, all = {0, 0, size};
  int64_t line = p->in[2] * px.step;
  vec_t v[9], best, sum;

  UNROLLED
  for (int i = 0; i < size * size; i++)
    v[i] = get(x, origin + i / size * line + i % size * px.step, px.lanes);
  best = sum = v[0];
  UNROLLED
  for (int i = 1; i < size * size; i++) {
    best = max_of(v[i], best);
    sum += v[i];
  }
  if (has_nan(sum)) /* a NaN input, or infinities of both signs */
    return window_max(p, px, x, origin, (span_t[]){one, all, all}, (int[]){1, size, size}, argmax);
  *argmax = (mask_t){0};
  UNROLLED
  for (int i = size * size - 1; i >= 0; i--)
    *argmax = set_where(v[i], best, i, *argmax);
  return best;
}

/* Returns 1 if the span is a whole window of size x size pixels of an image. */
INLINE int is_square(const cpu__pool_t *p, const span_t span[3], int size)
{
  int same = p->kernel[0] == 1;
  for (int axis = 1; axis < 3; axis++)
    same &= p->kernel[axis] == size && span[axis].to - span[axis].from == size;
  return same;
}

/* Calls square_max() or window_max() with constant bounds for common window sizes, so that the
 * compiler unrolls the loops. */
INLINE vec_t any_window_max(const cpu__pool_t *p, cpu__pixels_t px, const void *x,
                            const span_t span[3], mask_t *argmax)
{
  int64_t origin = voxel(p->in, span[0].origin, span[1].origin, span[2].origin) * px.step;

  if (is_square(p, span, 2)) return square_max(p, px, x, origin, 2, argmax);
  if (is_square(p, span, 3)) return square_max(p, px, x, origin, 3, argmax);
  return window_max(p, px, x, origin, span, p->kernel, argmax);
}

INLINE void max_volume(const cpu__pool_t *p, cpu__pixels_t px, const void *x, void *y,
                       uint8_t *argmax, int stream)
{
  int64_t at = 0;

  for (int64_t z = 0; z < p->out[0]; z++) {
    for (int64_t r = 0; r < p->out[1]; r++) {
      span_t depth = span_of(p, 0, z), rows = span_of(p, 1, r);
      for (int64_t c = 0; c < p->out[2]; c++, at++) {
        mask_t from;
        vec_t v = any_window_max(p, px, x, (span_t[]){depth, rows, span_of(p, 2, c)}, &from);
        if (p->relu) {
          from |= (v <= 0) & no_argmax(p);
          v = relu_of(v);
        }
        put(y, at * px.step, v, px.lanes, stream);
        if (argmax) store_argmax(p, argmax, at, from);
      }
    }
  }
  put_end(stream);
}

static void max(const cpu__pool_t *pool, cpu__pixels_t px, const void *x, void *y, uint8_t *argmax,
                int stream)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW) {
    max_volume(&p, whole_pixels(px), x, y, argmax, stream);
  } else {
    max_volume(&p, px, x, y, argmax, stream);
  }
}

/* Backward pass for windows that do not overlap: each output passes its gradient to its own
 * pixels. */
INLINE void max_bwd_tiles(const cpu__pool_t *p, int height, int width, cpu__pixels_t px,
                          const uint8_t *argmax, const void *dy, void *dx, int stream)
{
  int64_t at = 0;

  for (int64_t row = 0; row < p->out[1]; row++) {
    for (int64_t col = 0; col < p->out[2]; col++, at++) {
      int64_t to = voxel(p->in, 0, row * height, col * width) * px.step;
      mask_t from = load_argmax(p, argmax, at);
      vec_t g = get(dy, at * px.step, px.lanes);
      for (int r = 0; r < height; r++) {
        for (int c = 0; c < width; c++)
          put(dx, to + (r * p->in[2] + c) * px.step, keep(from == r * width + c, g), px.lanes,
              stream);
      }
    }
  }
}

/* The gradient of an output, and the index in its window that receives it. */
typedef struct routed {
  mask_t argmax;
  vec_t g;
} routed_t;

/* Returns the gradient and index of output (row, col) of an image; outside the output, an index
 * that matches no window element. */
INLINE routed_t routed_of(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax,
                          const void *dy, int64_t row, int64_t col)
{
  int64_t at = voxel(p->out, 0, row, col);
  if (row >= p->out[1] || col >= p->out[2]) return (routed_t){no_argmax(p), {0}};
  return (routed_t){load_argmax(p, argmax, at), get(dy, at * px.step, px.lanes)};
}

/* Computes the gradients of pixel (row, col) and its neighbours to the right, below, and below
 * right. The windows of four outputs overlap there: the 3x3 window of each output is centred on the
 * first of four such pixels. */
INLINE void max_bwd_four(const cpu__pool_t *p, cpu__pixels_t px, routed_t here, routed_t behind,
                         routed_t below, routed_t last, void *dx, int stream, int64_t row,
                         int64_t col)
{
  int has_behind = col + 1 < p->in[2], has_below = row + 1 < p->in[1];
  int64_t at = voxel(p->in, 0, row, col) * px.step, under = at + p->in[2] * px.step;
  vec_t none = {0};

  vec_t g = add_where(none, here.argmax, 5, here.g);
  put(dx, at, add_where(none, here.argmax, 4, here.g), px.lanes, stream);
  if (has_behind) put(dx, at + px.step, add_where(g, behind.argmax, 3, behind.g), px.lanes, stream);
  if (!has_below) return;
  g = add_where(none, here.argmax, 7, here.g);
  put(dx, under, add_where(g, below.argmax, 1, below.g), px.lanes, stream);
  if (!has_behind) return;
  g = add_where(none, here.argmax, 8, here.g);
  g = add_where(g, behind.argmax, 6, behind.g);
  g = add_where(g, below.argmax, 2, below.g);
  put(dx, under + px.step, add_where(g, last.argmax, 0, last.g), px.lanes, stream);
}

/* Backward pass for 3x3 windows with stride 2 and padding 1. */
INLINE void max_bwd_threes(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax,
                           const void *dy, void *dx, int stream)
{
  for (int64_t r = 0; 2 * r < p->in[1]; r++) {
    routed_t here = routed_of(p, px, argmax, dy, r, 0),
             below = routed_of(p, px, argmax, dy, r + 1, 0);
    for (int64_t c = 0; 2 * c < p->in[2]; c++) {
      routed_t behind = routed_of(p, px, argmax, dy, r, c + 1);
      routed_t last = routed_of(p, px, argmax, dy, r + 1, c + 1);
      max_bwd_four(p, px, here, behind, below, last, dx, stream, 2 * r, 2 * c);
      here = behind;
      below = last;
    }
  }
}

INLINE int are_threes(const cpu__pool_t *p)
{
  int same = p->in[0] == 1 && p->out[0] == 1 && p->kernel[0] == 1;
  for (int axis = 1; axis < 3; axis++)
    same &= p->kernel[axis] == 3 && p->stride[axis] == 2 && p->pad[axis] == 1;
  return same;
}

/* Returns the gradient of one input voxel: the sum over all windows that contain it. */
INLINE vec_t max_gradient(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax,
                          const void *dy, cpu__extent_t depth, int64_t z, int64_t r, int64_t c)
{
  cpu__extent_t rows = p->cover[1][r], cols = p->cover[2][c];
  vec_t g = {0};

  for (int64_t oz = depth.from; oz < depth.to; oz++) {
    for (int64_t orow = rows.from; orow < rows.to; orow++) {
      /* index of the voxel in this window, if the window began at column 0 */
      int64_t row =
          (z - oz * p->stride[0] + p->pad[0]) * p->kernel[1] + r - orow * p->stride[1] + p->pad[1];
      int64_t first = row * p->kernel[2] + c + p->pad[2], line = voxel(p->out, oz, orow, 0);
      for (int64_t oc = cols.from; oc < cols.to; oc++) {
        int64_t at = line + oc;
        mask_t from = load_argmax(p, argmax, at);
        g += keep(from == (int32_t)(first - oc * p->stride[2]), get(dy, at * px.step, px.lanes));
      }
    }
  }
  return g;
}

/* Computes the slice at depth z of a volume; `depth`: the range of windows that contain the slice.
 * */
INLINE void max_bwd_slice(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax,
                          const void *dy, void *dx, int stream, cpu__extent_t depth, int64_t z)
{
  int64_t at = voxel(p->in, z, 0, 0);

  for (int64_t r = 0; r < p->in[1]; r++)
    for (int64_t c = 0; c < p->in[2]; c++, at++)
      put(dx, at * px.step, max_gradient(p, px, argmax, dy, depth, z, r, c), px.lanes, stream);
}

INLINE void max_bwd_volume(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax,
                           const void *dy, void *dx, int stream)
{
  if (p->tiles && p->kernel[1] == 2 && p->kernel[2] == 2) {
    max_bwd_tiles(p, 2, 2, px, argmax, dy, dx, stream);
  } else if (p->tiles) {
    max_bwd_tiles(p, p->kernel[1], p->kernel[2], px, argmax, dy, dx, stream);
  } else if (are_threes(p)) {
    max_bwd_threes(p, px, argmax, dy, dx, stream);
  } else if (p->in[0] == 1 && p->out[0] == 1) { /* an image: no loop over the depth */
    max_bwd_slice(p, px, argmax, dy, dx, stream, (cpu__extent_t){0, 1}, 0);
  } else {
    for (int64_t z = 0; z < p->in[0]; z++)
      max_bwd_slice(p, px, argmax, dy, dx, stream, p->cover[0][z], z);
  }
  put_end(stream);
}

static void max_bwd(const cpu__pool_t *pool, cpu__pixels_t px, const uint8_t *argmax,
                    const void *dy, void *dx, int stream)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW) {
    max_bwd_volume(&p, whole_pixels(px), argmax, dy, dx, stream);
  } else {
    max_bwd_volume(&p, px, argmax, dy, dx, stream);
  }
}

/* ---- average ---- */

INLINE vec_t window_sum(const cpu__pool_t *p, cpu__pixels_t px, const void *x, int64_t oz,
                        int64_t orow, int64_t oc)
{
  cpu__extent_t depth = p->window[0][oz], rows = p->window[1][orow], cols = p->window[2][oc];
  vec_t sum = {0};

  for (int64_t z = depth.from; z < depth.to; z++)
    for (int64_t r = rows.from; r < rows.to; r++)
      for (int64_t c = cols.from; c < cols.to; c++)
        sum += get(x, voxel(p->in, z, r, c) * px.step, px.lanes);
  return sum;
}

INLINE void average_volume(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *x,
                           void *y)
{
  int64_t at = 0;

  for (int64_t z = 0; z < p->out[0]; z++) {
    for (int64_t r = 0; r < p->out[1]; r++) {
      float share = p->share[0][z] * p->share[1][r];
      for (int64_t c = 0; c < p->out[2]; c++, at += py.step)
        put(y, at, window_sum(p, px, x, z, r, c) * (share * p->share[2][c]), py.lanes, 0);
    }
  }
}

static void average(const cpu__pool_t *pool, cpu__pixels_t px, cpu__pixels_t py, const void *x,
                    void *y)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW && py.lanes == CPU__VW) {
    average_volume(&p, whole_pixels(px), whole_pixels(py), x, y);
  } else {
    average_volume(&p, px, py, x, y);
  }
}

INLINE vec_t average_gradient(const cpu__pool_t *p, cpu__pixels_t py, const void *dy, int64_t z,
                              int64_t r, int64_t c)
{
  cpu__extent_t depth = p->cover[0][z], rows = p->cover[1][r], cols = p->cover[2][c];
  vec_t g = {0};

  for (int64_t oz = depth.from; oz < depth.to; oz++) {
    for (int64_t orow = rows.from; orow < rows.to; orow++) {
      float share = p->share[0][oz] * p->share[1][orow];
      for (int64_t oc = cols.from; oc < cols.to; oc++)
        g += get(dy, voxel(p->out, oz, orow, oc) * py.step, py.lanes) * (share * p->share[2][oc]);
    }
  }
  return g;
}

INLINE void average_bwd_volume(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py,
                               const void *dy, void *dx)
{
  int64_t at = 0;

  for (int64_t z = 0; z < p->in[0]; z++)
    for (int64_t r = 0; r < p->in[1]; r++)
      for (int64_t c = 0; c < p->in[2]; c++, at += px.step)
        put(dx, at, average_gradient(p, py, dy, z, r, c), px.lanes, 0);
}

static void average_bwd(const cpu__pool_t *pool, cpu__pixels_t px, cpu__pixels_t py, const void *dy,
                        void *dx)
{
  const cpu__pool_t p = *pool;

  if (px.lanes == CPU__VW && py.lanes == CPU__VW) {
    average_bwd_volume(&p, whole_pixels(px), whole_pixels(py), dy, dx);
  } else {
    average_bwd_volume(&p, px, py, dy, dx);
  }
}
