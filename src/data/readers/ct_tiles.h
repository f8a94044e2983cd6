/** \file ct_tiles.h  Samples cut into overlapping tiles.  Layer 2.  All functions are local.
 *
 * Tiles begin at multiples of their size minus the overlap, and the last one of an axis is moved
 * inwards so that it ends with the sample.  Axes are those of space, (D,) (H,) W. */
#ifndef CT_TILES_H
#define CT_TILES_H
#include "data/readers/ct_reader.h"

#define CT_TILE_AXES 3

/** How samples are cut. */
typedef struct ct_tile {
  int given;                     /**< numbers in size[]: 1, which holds for all axes, or one for
                                      each axis; 0: samples are not cut */
  int64_t size[CT_TILE_AXES];    /**< at least 1 */
  int64_t overlap[CT_TILE_AXES]; /**< at least 0, less than size */
} ct_tile_t;

/** Pure.  Returns the number of tiles along an axis of \a extent, which is at least the size. */
int64_t ct_tile_count(int64_t extent, int64_t size, int64_t overlap);
/** Pure.  Returns where the i-th tile of an axis begins. */
int64_t ct_tile_start(int64_t extent, int64_t size, int64_t overlap, int64_t i);

/** Where a tile is. */
typedef struct ct_tile_at {
  int64_t sample, tile, tiles; /**< the tile is the tile-th of the sample's */
  ct_shape_t x;                /**< the whole sample */
  int64_t start[CT_TILE_AXES];
} ct_tile_at_t;

/** A reader whose samples are the tiles of another reader's samples, sample by sample.  It reads
 * neither labels nor extra inputs, and keeps the sample that it cut last.  Opened by
 * ct_tiles_open(). */
extern const ct_reader_ops_t ct_reader_tiles;
/** Cuts the samples of a reader, which it owns from now on, also on failure.  CT_ERR_USAGE: a
 * sample is smaller than a tile, or has another number of axes; the message names it. */
int ct_tiles_open(const ct_reader_ops_t *ops, ct_reader_t *of, const ct_tile_t *tile,
                  ct_reader_t **out);
/** Finds tile \a index of a reader that ct_tiles_open() opened. */
void ct_tiles_at(const ct_reader_t *r, int64_t index, ct_tile_at_t *out);
/** Returns how samples are cut, with one number for each axis; borrowed. */
const ct_tile_t *ct_tiles_tile(const ct_reader_t *r);
/** Returns the reader whose samples are cut; borrowed. */
ct_reader_t *ct_tiles_of(const ct_reader_t *r, const ct_reader_ops_t **ops);

#endif
