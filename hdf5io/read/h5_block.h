/** \file h5_block.h  Samples of a shard, fetched as they are stored.  Internal.
 *
 * First, with HDF5's lock and in microseconds, it is found out where they lie; then, without it,
 * their bytes are read, decoded and put in their places: by many threads at once. */
#ifndef CT_H5_BLOCK_H
#define CT_H5_BLOCK_H
#include "hdf5io/read/h5_offset_vfd.h"
#include "hdf5io/read/h5_shard.h"

/** What a thread needs for it. */
typedef struct ct__h5_load {
  ct__h5_decoder_t decoder;
  char *raw; /**< bytes as stored */
  size_t raw_cap;
  char *plain;           /**< a decoded chunk, if it is not decoded to where it goes */
  ct__h5_place_t *place; /**< of each chunk, or sample */
  int64_t nplaces, most_places;
} ct__h5_load_t;

/** For all blocks of shards that were added; then ct__h5_load_make(). */
typedef struct ct__h5_load_sizes {
  size_t raw, plain;
  int64_t places;
} ct__h5_load_sizes_t;
void ct__h5_load_add(ct__h5_load_sizes_t *n, const ct__h5_shard_t *s);
/** CT_ERR_NOMEM: ct__h5_load_clear() is still to be called. */
int ct__h5_load_make(ct__h5_load_t *l, const ct__h5_load_sizes_t *n);
void ct__h5_load_clear(ct__h5_load_t *l);

/** With the lock.  Where samples lie that belong to one block.  1, or 0: HDF5 must read them. */
int ct__h5_block_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l);
/** Without the lock, as the others below.  Samples that were found, to \a to, where a whole block
 * has room.  CT_ERR_IO names the file (see
 * ct__h5_block_name()), CT_ERR_FORMAT array and samples too. */
int ct__h5_block_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l, void *to);

/** Says in the record of an error which samples could not be read; returns \a rc. */
int ct__h5_block_name(const ct__h5_array_t *a, int64_t first, int64_t rows, int rc);

/** With the lock.  Where one sample of a shard that is `straight` lies.  1, or 0: HDF5 must read
 * it. */
int ct__h5_row_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t row,
                    ct__h5_place_t *out);
/** Without the lock.  \a rows samples that lie one behind the other from \a place on, to \a to. */
int ct__h5_row_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t rows,
                    const ct__h5_place_t *place, void *to);

#endif
