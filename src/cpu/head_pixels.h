/** \file head_pixels.h  The 1x1 convolution before a cross-entropy of pixels, and that loss, as one
 * op.  Module-internal. */
#ifndef CT_CPU_HEAD_PIXELS_H
#define CT_CPU_HEAD_PIXELS_H
#include "cpu/kern/loss_rows.h"

typedef struct cpu__head_pixels {
  ct_op_t op;
  cpu__loss_rows_t of;   /**< a row is a pixel */
  int64_t in;            /**< channels of x */
  int64_t width, blocks; /**< x is [N][blocks][pixels][width] */
  int64_t chunk, chunks; /**< pixels of a chunk; chunks of a sample */
  int64_t groups;        /**< of successive chunks */
  struct {
    size_t result, part, thread;     /**< offsets in the workspace */
    size_t part_bytes, thread_bytes; /**< of a group, of a thread */
    size_t bias, y, piece;           /**< offsets within these */
  } at;
} cpu__head_pixels_t;

int cpu__head_pixels_prepare(ct_op_t *op, ct_op_info_t *info);
int cpu__head_pixels_run(ct_op_t *op, const ct_op_args_t *a);

#endif
