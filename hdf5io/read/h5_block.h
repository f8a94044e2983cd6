/** \file h5_block.h  Reads samples of a shard as stored, bypassing HDF5. Internal.
 *
 * First the file extents are looked up, with HDF5's lock held, in microseconds. Then the bytes are
 * read, decoded and copied to their destinations without the lock, by many threads in parallel. */
#ifndef CT_H5_BLOCK_H
#define CT_H5_BLOCK_H
#include "hdf5io/read/h5_offset_vfd.h"
#include "hdf5io/read/h5_shard.h"

/** Per-thread buffers. */
typedef struct ct__h5_load {
  ct__h5_decoder_t decoder;
  char *raw; /**< bytes as stored */
  size_t raw_cap;
  char *plain;             /**< a decoded chunk, if it cannot be decoded in place */
  ct__h5_extent_t *extent; /**< extents of the chunks or samples */
  int64_t nextents, extents_cap;
} ct__h5_load_t;

/** Maximum buffer sizes over all blocks of the shards added; then call ct__h5_load_make(). */
typedef struct ct__h5_load_sizes {
  size_t raw, plain;
  int64_t extents;
} ct__h5_load_sizes_t;
void ct__h5_load_add(ct__h5_load_sizes_t *n, const ct__h5_shard_t *s);
/** Allocates the buffers. CT_ERR_NOMEM; ct__h5_load_clear() must be called even then. */
int ct__h5_load_make(ct__h5_load_t *l, const ct__h5_load_sizes_t *n);
void ct__h5_load_clear(ct__h5_load_t *l);

/** Needs the lock. Finds the extents of samples that belong to one block. Returns 1, or 0 if HDF5
 * must read the samples. */
int ct__h5_block_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l);
/** Called without the lock, like the functions below. Reads samples whose extents were found into
 * \a to, which must hold a whole block. CT_ERR_IO names the file (see ct__h5_block_name()),
 * CT_ERR_FORMAT also array and samples. */
int ct__h5_block_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l, void *to);

/** Adds to the error record which samples could not be read; returns \a rc. */
int ct__h5_block_name(const ct__h5_array_t *a, int64_t first, int64_t rows, int rc);

/** Needs the lock. Finds the extent of one sample of a shard that is `straight` (h5_shard.h).
 * Returns 1, or 0 if HDF5 must read the sample. */
int ct__h5_row_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t row,
                    ct__h5_extent_t *out);
/** Called without the lock. Reads \a rows samples, contiguous in the file from \a extent, into
 * \a to. */
int ct__h5_row_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t rows,
                    const ct__h5_extent_t *extent, void *to);

#endif
