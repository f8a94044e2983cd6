/** \file h5_chunk.h  Decodes chunks of HDF5 without HDF5, so outside its lock.  Internal. */
#ifndef CT_H5_CHUNK_H
#define CT_H5_CHUNK_H
#include <libdeflate.h>
#include <stddef.h>
#include <stdint.h>

/** A filter pipeline that can be decoded here: none, shuffle, deflate, or shuffle and then
 * deflate. */
typedef struct ct__h5_filters {
  int shuffle, deflate; /**< place in the pipeline, the bit of the mask of skipped ones; -1: none */
  size_t item;          /**< bytes of the elements that are shuffled */
} ct__h5_filters_t;

/** Most bytes that HDF5 stores for a chunk of \a bytes: deflate can make it larger. */
size_t ct__h5_chunk_bound(size_t bytes);
/** \a raw as stored, with the mask of filters that were skipped when it was written, to \a bytes at
 * \a out.  \a scratch: \a bytes too.  1, or 0 if the content is damaged. */
int ct__h5_chunk_decode(struct libdeflate_decompressor *d, const ct__h5_filters_t *f,
                        uint32_t skipped, const void *raw, size_t raw_bytes, void *scratch,
                        void *out, size_t bytes);

#endif
