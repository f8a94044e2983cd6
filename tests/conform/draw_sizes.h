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

/** draw_expr.c */
void draw_expr(dice_t *d, op_case_t *c);
void draw_random(dice_t *d, op_case_t *c);

#endif
