/** \file h5_chunk.h  Decodes chunks of HDF5 without HDF5, so outside its lock.  Internal. */
#ifndef CT_H5_CHUNK_H
#define CT_H5_CHUNK_H
#include <hdf5.h>
#include <libdeflate.h>
#include <stddef.h>
#include <stdint.h>

/** A filter pipeline that can be decoded here: none, shuffle, deflate, or shuffle and then
 * deflate.  Plain data: other ranks get it as it is. */
typedef struct ct__h5_filters {
  int n;                /**< filters; 0: chunks are stored as they are */
  int shuffle, deflate; /**< place in the pipeline, the bit of the mask of skipped ones; -1: none */
  size_t item;          /**< bytes of the elements that are shuffled */
} ct__h5_filters_t;

/** What a thread needs to decode chunks. */
typedef struct ct__h5_decoder {
  struct libdeflate_decompressor *inflate;
  void *scratch; /**< a chunk */
} ct__h5_decoder_t;

/** With the lock.  The pipeline of a property list of an array.  1, or 0 if it is not one that can
 * be decoded here. */
int ct__h5_filters_find(hid_t creation, ct__h5_filters_t *out);
/** Most bytes that HDF5 stores for a chunk of \a bytes: deflate can make it larger. */
size_t ct__h5_chunk_bound(const ct__h5_filters_t *f, size_t bytes);
/** For chunks of up to so many bytes.  CT_ERR_NOMEM: ct__h5_decoder_clear() is still to be
 * called. */
int ct__h5_decoder_make(ct__h5_decoder_t *d, size_t chunk_bytes);
/** {0} is fine. */
void ct__h5_decoder_clear(ct__h5_decoder_t *d);
/** \a raw as stored, with the mask of filters that were skipped when it was written, to \a bytes at
 * \a out.  NULL, or what is wrong with it, in words ("it cannot be decompressed"). */
const char *ct__h5_chunk_decode(ct__h5_decoder_t *d, const ct__h5_filters_t *f, uint32_t skipped,
                                const void *raw, size_t raw_bytes, void *out, size_t bytes);

#endif
