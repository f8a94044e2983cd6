/** \file conv/winograd_loops.h  The transforms of Winograd's algorithm F(4x4, 3x3), tile by tile.
 * Module-internal.
 *
 * A tile is 4x4 pixels of y and the 6x6 of x that they depend on.  Its transform has 36 positions;
 * at each of them a convolution is a product of matrices.  With B, G and A as in Lavin and Gray
 * (arXiv 1509.09308):
 *
 *   forward   y  = A' [sum over channels of (G w G') * (B' x B)] A
 *   weights   dw = G' [sum over tiles of (A dy A') * (B' x B)] G
 *
 * and backward data is forward with the weights turned round.  The points are 0, +-0.625, +-1.5 and
 * infinity: the error is half of that with 1 and 2, and the constants are exact.
 *
 * A transform lies as [position][tile][channel]: positions are `stride` floats apart, the channels
 * of a tile side by side, so that it is a matrix of either shape to a product.  One call is about
 * one tile and one block of channels, as many as a vector has lanes.  Tiles are numbered image by
 * image, row by row. */
#ifndef CT_CPU_WINOGRAD_LOOPS_H
#define CT_CPU_WINOGRAD_LOOPS_H
#include "cpu/kern/op.h"

enum { CPU__TILE = 4, CPU__PATCH = 6, CPU__POSITIONS = 36 };

/** One block of channels of one image: [h][w][lanes]. */
typedef struct cpu__plane {
  const float *data;
  int64_t h, w;
} cpu__plane_t;

/** Transformed gradients of weights: summed over `parts`, then transformed back. */
typedef struct cpu__gathered {
  const float *u;         /**< [part][position][row][lanes] */
  int64_t part, position; /**< floats from one to the next */
  int64_t row;
  int parts;
} cpu__gathered_t;

/** Sums of products of one tile, and what becomes of its pixels. */
typedef struct cpu__tile_sums {
  const float *at;
  int64_t stride;
  const float *bias; /**< of these channels; NULL: none */
  int add;           /**< 1: they are added to what is there */
  int relu;          /**< a NaN stays */
  int stream;        /**< 1: pixels are stored around the caches; they are aligned */
} cpu__tile_sums_t;

typedef struct cpu__winograd_loops {
  int width; /**< lanes */
  /** v = B' x B of the 6x6 pixels from (top, left) on; what is outside the image is 0. */
  void (*input)(const cpu__plane_t *x, int64_t top, int64_t left, float *v, int64_t stride);
  /** v = A dy A' of the 4x4 pixels from (top, left) on; sums, unless NULL: their sum is added. */
  void (*spread)(const cpu__plane_t *dy, int64_t top, int64_t left, float *v, int64_t stride,
                 float *sums);
  /** dw = G' u G of `width` rows, input channels: [3][3][row][lanes]. */
  void (*gather)(const cpu__gathered_t *g, float *dw);
  /** y = A' m A, those of the 4x4 pixels from (top, left) on that are in the image. */
  void (*output)(const cpu__tile_sums_t *m, int64_t top, int64_t left, const cpu__plane_t *y);
  /** u = G w G' of one block of input and of output channels, w as [3][3][input][output], in rows
   * of output channels; turned: rotated by half a turn, in rows of input channels. */
  void (*weights)(const float *w, int turned, float *u, int64_t stride, int64_t row);
} cpu__winograd_loops_t;

extern const cpu__winograd_loops_t cpu__winograd_portable, cpu__winograd_avx2, cpu__winograd_avx512;

/** Those of the device, for cpu__blocked(). */
static inline const cpu__winograd_loops_t *cpu__winograd_loops(const ct_dev_t *dev)
{
#ifdef __x86_64__
  if (dev->isa == CPU__AVX512) return &cpu__winograd_avx512;
  if (dev->isa == CPU__AVX2) return &cpu__winograd_avx2;
#else
  (void)dev;
#endif
  return &cpu__winograd_portable;
}

#endif
