/** \file draw_sizes.h  Sizes of drawn cases, and cases of elementwise ops. */
#ifndef CONFORM_DRAW_SIZES_H
#define CONFORM_DRAW_SIZES_H
#include "tests/conform/draw.h"

/** Draw a size of a dim: of a batch, which may be 0; of channels, around the borders of vectors and
 * blocks; of an image. */
int64_t draw_batch(dice_t *d);
int64_t draw_channels(dice_t *d);
int64_t draw_size(dice_t *d);
/** Draw a shape: of images or volumes; of any tensor; of sequences. */
ct_shape_t draw_image(dice_t *d);
ct_shape_t draw_any(dice_t *d);
ct_shape_t draw_sequence(dice_t *d);
/** Starts a case with random data. */
void draw_start(op_case_t *c, ct_op_kind_t kind, ct_shape_t x, ct_shape_t y);

/** An SDPA with heads. */
typedef struct sdpa_row {
  int n, t, s, heads, kv, d, e, packed, causal;
  ct_mask_t mask;
  int bias; /**< bits: 1: one for all samples; 2: one for all heads */
  int cached;
} sdpa_row_t;
/** Makes the case \a r. */
void sdpa_with_heads(op_case_t *out, const sdpa_row_t *r);

/** draw_rope.c */
void draw_position(dice_t *d, op_case_t *c);
void draw_rope(dice_t *d, op_case_t *c);
/** draw_conv_pool.c; returns 0 if it is not valid */
int draw_conv_pool(dice_t *d, op_case_t *c);
/** draw_expr.c */
void draw_expr(dice_t *d, op_case_t *c);
void draw_random(dice_t *d, op_case_t *c);

#endif
