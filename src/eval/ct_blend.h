/** \file ct_blend.h  Puts the outputs of overlapping tiles together.  Layer 4.  All functions are
 * local.
 *
 * An output is the weighted mean of the tiles that cover its place.  The weight of a tile is the
 * product of one weight for each axis: constant 1; linear, which rises from the border to 1 within
 * the overlap; or that of a normal distribution around the middle, with a standard deviation of an
 * eighth of the tile (constant and gaussian as MONAI 1.4, sliding_window_inference(), but without
 * its lower limit of small weights). */
#ifndef CT_BLEND_H
#define CT_BLEND_H
#include "data/readers/ct_tiles.h"

typedef enum { CT_BLEND_LINEAR, CT_BLEND_CONSTANT, CT_BLEND_GAUSSIAN } ct_blend_kind_t;

typedef struct ct_blend {
  ct_blend_kind_t kind;
  ct_tile_t tile;              /**< of the model's input */
  int64_t size[CT_TILE_AXES];  /**< of the model's output for one tile */
  int64_t whole[CT_TILE_AXES]; /**< of the output for the current sample */
  double *sum[CT_TILE_AXES];   /**< owned; the sum of the tiles' weights at each place of an axis */
  double *row;                 /**< owned; the weights along the last axis of the current tile */
} ct_blend_t;

/** Opens *b for an output of shape \a out for a tile; no sample exceeds \a most.  CT_ERR_USAGE: the
 * output does not scale with the input. */
int ct_blend_open(ct_blend_t *b, ct_blend_kind_t kind, const ct_tile_t *tile, const char *name,
                  const ct_shape_t *out, const ct_shape_t *most);
/** Starts a sample of shape \a x (of the model's input).  CT_ERR_USAGE: a tile does not begin at a
 * whole place of the output. */
int ct_blend_begin(ct_blend_t *b, const ct_shape_t *x);
/** Adds the outputs of a tile that begins at \a start of the input to whole[channels][places],
 * which is zero at first. */
void ct_blend_add(ct_blend_t *b, int64_t channels, const int64_t start[CT_TILE_AXES],
                  const float *tile, float *whole);
void ct_blend_close(ct_blend_t *b);

#endif
