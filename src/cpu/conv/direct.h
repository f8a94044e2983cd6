/** \file conv/direct.h  Direct convolution on the tile (cpu/tile/tile.h).  Module-internal.
 *
 * x and y lie in blocks of as many channels as a vector has floats; an x of few channels may also
 * be plain.  A tile is some neighbouring positions of a row times some blocks of channels; what it
 * sums over are the positions of the kernel and the blocks of channels on the other side, so
 * nothing is copied, and a tile at the border leaves out what lies outside.  Images are volumes of
 * depth 1; [0] is along the depth, [1] the height, [2] the width. */
#ifndef CT_CPU_DIRECT_H
#define CT_CPU_DIRECT_H
#include "cpu/gemm/algorithm.h"
#include "cpu/tile/tile.h"

enum { CPU__DIRECT_MAX = 16 /**< most positions of a kernel along a direction, largest stride */ };

/** Where the elements of x or y lie; distances in floats. */
typedef struct cpu__image {
  int64_t n, channels, size[3];
  int64_t lanes, blocks;       /**< a plain image has blocks of 1 channel */
  int64_t at[3], block, image; /**< from one position, block, image to the next */
} cpu__image_t;

/** A position `tap` of the kernel: the target's position number i of a phase meets position
 * at + i * step of the source, which is inside for lo <= i < hi. */
typedef struct cpu__meet {
  int tap;
  int64_t at, lo, hi;
} cpu__meet_t;

/** Every `phases`-th position of the target: those meet the same positions of the kernel. */
typedef struct cpu__phase {
  int64_t count;
  int first, end; /**< of its meets: in order, and those of a position are neighbours */
} cpu__phase_t;

/** How target and source meet along one direction.  Forward the target is y and there is one phase;
 * backward it is x, and there are as many as the stride. */
typedef struct cpu__line {
  int phases;
  int64_t step;
  cpu__phase_t phase[CPU__DIRECT_MAX];
  cpu__meet_t meet[CPU__DIRECT_MAX];
} cpu__line_t;

/** A convolution, as all passes see it.  The weights lie as [block of y][block of x][position of
 * the kernel][channel of x in the block][channel of y in the block]. */
typedef struct cpu__direct {
  const cpu__tiles_t *tiles;
  int threads, bias, relu;
  int add; /**< forward: sums are added to what is in y */
  cpu__image_t x, y;
  int kernel[3], stride[3], pad[3], dilate[3];
  int64_t taps;                /**< positions of the kernel */
  int64_t w_tap, w_block, w_y; /**< from one position, block of x, block of y to the next */
  int64_t weights;
} cpu__direct_t;

/* direct_lines.c */
void cpu__line_forward(const cpu__direct_t *d, int direction, cpu__line_t *out);
void cpu__line_back(const cpu__direct_t *d, int direction, cpu__line_t *out);

/** Local.  The passes that gather: forward, and backward to the data, where the weights are
 * transposed first.  *scratch: bytes. */
int cpu__gather_prepare(const cpu__direct_t *d, int pass, void **out, size_t *scratch);
/** Hot. */
void cpu__gather_run(const void *gather, void *const at[CPU__ROLES]);
/** Local.  The gradients of weights and bias. */
int cpu__gradient_prepare(const cpu__direct_t *d, void **out, size_t *scratch);
/** Hot. */
void cpu__gradient_run(const void *gradient, void *const at[CPU__ROLES]);

#endif
