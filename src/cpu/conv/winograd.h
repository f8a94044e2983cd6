/** \file conv/winograd.h  The passes of Winograd's algorithm, which are one way to compute a
 * convolution.  Module-internal.
 *
 * What a pass has prepared begins with the pass (an int), by which the way knows whose it is. */
#ifndef CT_CPU_WINOGRAD_H
#define CT_CPU_WINOGRAD_H
#include "base/ct_int.h"
#include "cpu/conv/conv.h"

/** Where a tile lies: tiles are numbered row by row, image by image. */
typedef struct cpu__place {
  int64_t image, row, col; /**< in tiles of the image */
} cpu__place_t;

static inline cpu__place_t cpu__winograd_place(int64_t tile, int64_t rows, int64_t cols)
{
  int64_t row = tile / cols;
  return (cpu__place_t){row / rows, row % rows, tile % cols};
}

/** Distance of the positions of a transform whose matrices have so many floats: an odd number of
 * cache lines, or the 36 numbers of a tile would all be written to the same few places of a
 * cache. */
static inline int64_t cpu__winograd_apart(int64_t floats)
{
  enum { LINE = 16 };
  return (ct_div_up(floats, LINE) | 1) * LINE;
}

/* The gradient of the weights (winograd_gradient.c): entries of cpu__way_t for jobs that have been
 * looked at: kernel 3x3, stride 1, not dilated, no groups, x and y in cpu__blocked(), the weights
 * in blocks of both channels, output channels innermost. */

cpu__cost_t cpu__winograd_gradient_cost(const cpu__job_t *job);
/** Fills out->own and out->scratch. */
int cpu__winograd_gradient_prepare(const cpu__job_t *job, cpu__ready_t *out);
int cpu__winograd_gradient_run(ct_dev_t *dev, const cpu__ready_t *ready,
                               void *const at[CPU__ROLES]);

#endif
