/** \file conv/winograd_loops.h  The transforms of the Winograd convolution F(4x4, 3x3), tile by
 * tile.  Module-internal.
 *
 * A tile is 4x4 pixels of y and the 6x6 pixels of x that they depend on.  Its transform has 36
 * positions; at each of them the convolution is a GEMM.  With B, G and A as in Lavin and Gray
 * (arXiv 1509.09308):
 *
 *   forward   y  = A' [sum over channels of (G w G') * (B' x B)] A
 *   weights   dw = G' [sum over tiles of (A dy A') * (B' x B)] G
 *
 * The data gradient is the forward pass with rotated weights.  The interpolation points are 0,
 * ±0.625, ±1.5 and infinity: the rounding error is half of the error with the usual points ±1 and
 * ±2, and the constants are exact.
 *
 * A transform is stored as [position][tile][channel]: positions are `stride` floats apart, and the
 * channels of a tile are contiguous, so each position is a GEMM operand in either orientation.  One
 * call processes one tile and one block of channels: as many channels as a vector has lanes
 * (elements).  Tiles are numbered image by image, row by row. */
#ifndef CT_CPU_WINOGRAD_LOOPS_H
#define CT_CPU_WINOGRAD_LOOPS_H
#include "cpu/kern/op.h"

enum { CPU__TILE = 4, CPU__PATCH = 6, CPU__POSITIONS = 36 };

/** One block of channels of one image: [h][w][lanes]. */
typedef struct cpu__plane {
  const float *data;
  int64_t h, w;
} cpu__plane_t;

/** Transformed weight gradients, to be summed over `parts` and transformed back. */
typedef struct cpu__gathered {
  const float *u;         /**< [part][position][row][lanes] */
  int64_t part, position; /**< strides in floats */
  int64_t row;
  int parts;
} cpu__gathered_t;

/** GEMM results of one tile, and the epilogue of its pixels. */
typedef struct cpu__tile_sums {
  const float *at;
  int64_t stride;
  const float *bias; /**< for these channels; NULL: none */
  int add;           /**< 1: accumulates into y */
  int relu;          /**< NaN stays NaN */
  int stream;        /**< 1: non-temporal stores; pixels are aligned */
} cpu__tile_sums_t;

typedef struct cpu__winograd_loops {
  int width; /**< lanes */
  /** Computes v = B' x B of the 6x6 pixels from (top, left) on; pixels outside the image are 0. */
  void (*input)(const cpu__plane_t *x, int64_t top, int64_t left, float *v, int64_t stride);
  /** Computes v = A dy A' of the 4x4 pixels from (top, left) on; adds the sum of the pixels to
   * `sums` unless NULL. */
  void (*spread)(const cpu__plane_t *dy, int64_t top, int64_t left, float *v, int64_t stride,
                 float *sums);
  /** Computes dw = G' u G for `width` rows (input channels): [3][3][row][lanes]. */
  void (*gather)(const cpu__gathered_t *g, float *dw);
  /** Computes y = A' m A for the 4x4 pixels from (top, left) on; skips pixels outside the image. */
  void (*output)(const cpu__tile_sums_t *m, int64_t top, int64_t left, const cpu__plane_t *y);
  /** Computes u = G w G' of one block of input and output channels.  w is [3][3][input][output];
   * rows of u are output channels.  turned: w is rotated by 180 degrees, and rows are input
   * channels. */
  void (*weights)(const float *w, int turned, float *u, int64_t stride, int64_t row);
} cpu__winograd_loops_t;

extern const cpu__winograd_loops_t cpu__winograd_portable, cpu__winograd_avx2, cpu__winograd_avx512;

/** Returns the loops for the device's vectors, whose length is that of a block of cpu__blocked().
 * */
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
