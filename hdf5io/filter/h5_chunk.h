/** \file h5_chunk.h  Decodes HDF5 chunks without HDF5, and so without its lock. Internal.
 *
 * A chunk is stored as the last filter of the array's pipeline left it; its filter mask tells which
 * filters were skipped for this chunk. */
#ifndef CT_H5_CHUNK_H
#define CT_H5_CHUNK_H
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

enum { CT__H5_STEPS = 8 /* maximum filters of a pipeline decoded here */ };

/** A filter and the parameters needed to decode it. */
typedef struct ct__h5_step {
  int32_t id;     /**< HDF5's filter number */
  uint32_t item;  /**< shuffle, bitshuffle: bytes per element */
  uint32_t block; /**< bitshuffle: elements per block, unless chunks state it */
  uint32_t codec; /**< bitshuffle: compression of its blocks; 0: none */
} ct__h5_step_t;

/** A filter pipeline that can be decoded here, in the order of writing. Plain data, sent to other
 * ranks as bytes. */
typedef struct ct__h5_filters {
  int32_t n; /**< 0: no filters */
  ct__h5_step_t step[CT__H5_STEPS];
} ct__h5_filters_t;

/** Per-thread state for decoding chunks. */
typedef struct ct__h5_decoder {
  void *inflate;      /**< libdeflate decompressor */
  void *zstd;         /**< zstd context; NULL if this build does not use libzstd */
  uint8_t *workspace; /**< two chunks between filters, then two bitshuffle blocks */
  size_t cap;         /**< capacity for one chunk in `workspace`, in bytes */
} ct__h5_decoder_t;

/** Needs the lock. Reads the pipeline from an array's creation property list. Returns 1, or 0 if
 * only HDF5 can decode it. */
int ct__h5_filters_find(hid_t creation, ct__h5_filters_t *out);
/** Returns 1 if at least one filter compresses. */
int ct__h5_filters_compress(const ct__h5_filters_t *f);
/** Returns the maximum stored size of a chunk of \a bytes bytes; incompressible data grows. */
size_t ct__h5_chunk_bound(const ct__h5_filters_t *f, size_t bytes);
/** Allocates a decoder for chunks of up to \a chunk_bytes bytes. CT_ERR_NOMEM;
 * ct__h5_decoder_clear() must be called even then. */
int ct__h5_decoder_make(ct__h5_decoder_t *d, size_t chunk_bytes);
/** Frees the members of \a d, which may be all zero: nothing to free. */
void ct__h5_decoder_clear(ct__h5_decoder_t *d);
/** Decodes a stored chunk with its mask of skipped filters to \a bytes bytes at \a out. Returns
 * NULL, or a description of the error ("it cannot be decompressed"). Safe for arbitrary input. The
 * blosc libraries allocate memory. */
const char *ct__h5_chunk_decode(ct__h5_decoder_t *d, const ct__h5_filters_t *f, uint32_t skipped,
                                const void *raw, size_t raw_bytes, void *out, size_t bytes);

#endif
