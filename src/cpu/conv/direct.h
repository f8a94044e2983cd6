/** \file conv/direct.h  Direct convolution on the micro-kernels of cpu/tile/tile.h.
 * Module-internal.
 *
 * x and y are blocked, with as many channels per block as a vector has floats; an x with few
 * channels may also be plain.  A tile covers neighbouring pixels of a row and some blocks of
 * channels.  It sums over the kernel positions (taps) and the channel blocks of the other side.  So
 * nothing is copied, and tiles at the border skip taps outside the image.  Images are volumes of
 * depth 1; index [0] is the depth, [1] the height, [2] the width. */
#ifndef CT_CPU_DIRECT_H
#define CT_CPU_DIRECT_H
#include "cpu/gemm/algorithm.h"
#include "cpu/tile/tile.h"

enum { CPU__DIRECT_MAX = 16 /**< maximum kernel size and stride per dim */ };

/** Memory layout of x or y; strides in floats. */
typedef struct cpu__image {
  int64_t n, channels, size[3];
  int64_t lanes, blocks;       /**< a plain image has blocks of 1 channel */
  int64_t at[3], block, image; /**< strides between pixels per dim, blocks, and images */
} cpu__image_t;

/** One kernel position `tap` along one dim: element i of a phase of the target meets element at + i
 * * step of the source, which is inside for lo <= i < hi. */
typedef struct cpu__overlap {
  int tap;
  int64_t at, lo, hi;
} cpu__overlap_t;

/** Every `phases`-th element of the target; all of them meet the same kernel positions. */
typedef struct cpu__phase {
  int64_t count;
  int first, end; /**< range of its overlaps, in order; those of one kernel position are adjacent */
} cpu__phase_t;

/** How target and source meet along one dim.  Forward: the target is y, with one phase.  Backward:
 * the target is x, with as many phases as the stride. */
typedef struct cpu__line {
  int phases;
  int64_t step;
  cpu__phase_t phase[CPU__DIRECT_MAX];
  cpu__overlap_t overlap[CPU__DIRECT_MAX];
} cpu__line_t;

/** A convolution, shared by all passes.  Weights are [block of y][block of x][tap][channel of x in
 * the block][channel of y in the block]. */
typedef struct cpu__direct {
  const cpu__tiles_t *tiles;
  int threads, bias, relu;
  int add; /**< forward: accumulates into y */
  cpu__image_t x, y;
  int kernel[3], stride[3], pad[3], dilate[3];
  int64_t taps;                /**< number of kernel positions */
  int64_t w_tap, w_block, w_y; /**< strides of the weights between taps, blocks of x, blocks of y */
  int64_t weights;
} cpu__direct_t;

/* direct_lines.c */
void cpu__line_forward(const cpu__direct_t *d, int direction, cpu__line_t *out);
void cpu__line_back(const cpu__direct_t *d, int direction, cpu__line_t *out);

/** Local.  The gather passes: forward, and backward to the data, which transposes the weights
 * first.  *scratch: bytes. */
int cpu__gather_prepare(const cpu__direct_t *d, int pass, void **out, size_t *scratch);
/** Hot. */
void cpu__gather_run(const void *gather, void *const at[CPU__ROLES]);
/** Local.  The gradients of weights and bias. */
int cpu__gradient_prepare(const cpu__direct_t *d, void **out, size_t *scratch);
/** Hot. */
void cpu__gradient_run(const void *gradient, void *const at[CPU__ROLES]);

#endif
