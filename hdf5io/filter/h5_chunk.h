/** \file h5_chunk.h  Decodes chunks of HDF5 without HDF5, so outside its lock.  Internal.
 *
 * A chunk is stored as the last filter of its array's pipeline left it; a mask beside it says which
 * filters were left out for it alone. */
#ifndef CT_H5_CHUNK_H
#define CT_H5_CHUNK_H
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

enum { CT__H5_STEPS = 8 /* filters of a pipeline that are decoded here */ };

/** A filter and what decoding needs of its parameters. */
typedef struct ct__h5_step {
  int32_t id;     /**< HDF5's number of it */
  uint32_t item;  /**< shuffle, bitshuffle: bytes of an element */
  uint32_t block; /**< bitshuffle: elements of a block, if chunks do not say it */
  uint32_t codec; /**< bitshuffle: what its blocks are compressed with, 0: nothing */
} ct__h5_step_t;

/** A filter pipeline that can be decoded here, in the order of writing.  Plain data: other ranks
 * get it as it is. */
typedef struct ct__h5_filters {
  int32_t n; /**< 0: chunks are stored as they are */
  ct__h5_step_t step[CT__H5_STEPS];
} ct__h5_filters_t;

/** What a thread needs to decode chunks. */
typedef struct ct__h5_decoder {
  void *inflate; /**< libdeflate's */
  void *zstd;    /**< zstd's, NULL without that library */
  uint8_t *room; /**< two chunks between filters, then two blocks of bitshuffle */
  size_t cap;    /**< bytes of one of those chunks */
} ct__h5_decoder_t;

/** With the lock.  The pipeline of a property list of an array.  1, or 0 if it is not one that can
 * be decoded here. */
int ct__h5_filters_find(hid_t creation, ct__h5_filters_t *out);
/** 1: one of them makes chunks smaller. */
int ct__h5_filters_compress(const ct__h5_filters_t *f);
/** Most bytes that are expected of a stored chunk of \a bytes: what does not compress grows. */
size_t ct__h5_chunk_bound(const ct__h5_filters_t *f, size_t bytes);
/** For chunks of up to so many bytes.  CT_ERR_NOMEM: ct__h5_decoder_clear() is still to be
 * called. */
int ct__h5_decoder_make(ct__h5_decoder_t *d, size_t chunk_bytes);
/** {0} is fine. */
void ct__h5_decoder_clear(ct__h5_decoder_t *d);
/** \a raw as stored, with the mask of filters that were skipped when it was written, to \a bytes at
 * \a out.  NULL, or what is wrong with it, in words ("it cannot be decompressed").  Any bytes may
 * be given.  The blosc libraries allocate. */
const char *ct__h5_chunk_decode(ct__h5_decoder_t *d, const ct__h5_filters_t *f, uint32_t skipped,
                                const void *raw, size_t raw_bytes, void *out, size_t bytes);

#endif
