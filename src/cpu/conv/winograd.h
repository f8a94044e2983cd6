/** \file conv/winograd.h  Passes of the Winograd convolution.  Module-internal.
 *
 * The prepared state of a pass begins with the pass (an int), from which the algorithm's functions
 * see which struct follows. */
#ifndef CT_CPU_WINOGRAD_H
#define CT_CPU_WINOGRAD_H
#include "base/ct_int.h"
#include "cpu/conv/conv.h"

/** Position of a tile; tiles are numbered row by row, image by image. */
typedef struct cpu__tile_pos {
  int64_t image;    /**< image number */
  int64_t row, col; /**< row and column of the tile in the image, counted in tiles */
} cpu__tile_pos_t;

static inline cpu__tile_pos_t cpu__winograd_tile_pos(int64_t tile, int64_t rows, int64_t cols)
{
  int64_t row = tile / cols;
  return (cpu__tile_pos_t){row / rows, row % rows, tile % cols};
}

/** Returns the stride between the 36 positions of a transform, each with `floats` floats: an odd
 * number of cache lines, so that the 36 values of a tile do not fall into the same cache sets. */
static inline int64_t cpu__winograd_apart(int64_t floats)
{
  enum { LINE = 16 };
  return (ct_div_up(floats, LINE) | 1) * LINE;
}

/* The gradient of the weights (winograd_gradient.c): entries of cpu__algo_t for jobs that meet the
 * conditions of winograd.c: kernel 3x3, stride 1, no dilation, no groups, x and y in
 * cpu__blocked(), weights blocked in both channel dims with output channels innermost. */

cpu__cost_t cpu__winograd_gradient_cost(const cpu__job_t *job);
/** Fills out->own and out->scratch. */
int cpu__winograd_gradient_prepare(const cpu__job_t *job, cpu__ready_t *out);
int cpu__winograd_gradient_run(ct_dev_t *dev, const cpu__ready_t *ready,
                               void *const at[CPU__ROLES]);

#endif
