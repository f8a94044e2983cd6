/** \file h5_filter.h  Filters of HDF5 that are decoded here: a row each.  Internal.
 *
 * Their numbers are HDF5's own, or registered with The HDF Group
 * (https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md). */
#ifndef CT_H5_FILTER_H
#define CT_H5_FILTER_H
#include "hdf5io/filter/h5_chunk.h"

enum {
  CT__H5_LZF = 32000,
  CT__H5_BLOSC = 32001,
  CT__H5_LZ4 = 32004,
  CT__H5_BITSHUFFLE = 32008,
  CT__H5_ZSTD = 32015,
  CT__H5_BLOSC2 = 32026,
  CT__H5_BIT_BLOCK = 64 << 10 /* most bytes of a block of bitshuffle: eight times its default */
};

/** Bytes between two filters. */
typedef struct ct__h5_bytes {
  const uint8_t *at;
  size_t n;
} ct__h5_bytes_t;

typedef struct ct__h5_filter {
  int id;
  int compresses;
  /* Takes what it needs of n parameters.  1, or 0: it is not decoded here.  NULL: it needs none. */
  int (*know)(ct__h5_step_t *step, size_t n, const unsigned *values);
  /* Fills `to`, which has room for *bytes, and says in *bytes how many it got.  NULL, or what is
   * wrong with the chunk.  NULL if it has only a check. */
  const char *(*decode)(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                        uint8_t *to, size_t *bytes);
  /* What only looks at the bytes and takes some off their end. */
  const char *(*check)(ct__h5_bytes_t *bytes);
} ct__h5_filter_t;

/** NULL: none that is decoded here, or its library is not there. */
const ct__h5_filter_t *ct__h5_filter_find(int id);

extern const ct__h5_filter_t ct__h5_filter_shuffle, ct__h5_filter_fletcher32, ct__h5_filter_lzf,
    ct__h5_filter_lz4, ct__h5_filter_zstd, ct__h5_filter_bitshuffle, ct__h5_filter_blosc2;

/** Shuffled: the first bytes of all elements, then all second bytes, …; a rest that is no whole
 * element stands at the end as it is (H5Zshuffle.c).  Sorts \a bytes of elements of \a item bytes
 * back. */
void ct__h5_unshuffle(const uint8_t *from, size_t bytes, size_t item, uint8_t *to);

/** Bytes of LZ4 or zstd of exactly \a bytes plain ones: 1, or 0 if they are not. */
int ct__h5_unlz4(ct__h5_bytes_t from, uint8_t *to, size_t bytes);
int ct__h5_unzstd(ct__h5_decoder_t *d, ct__h5_bytes_t from, uint8_t *to, size_t *bytes);

/** A big-endian number; the caller has looked that its bytes are there. */
static inline uint32_t ct__h5_big32(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t ct__h5_big64(const uint8_t *p)
{
  return (uint64_t)ct__h5_big32(p) << 32 | ct__h5_big32(p + 4);
}

#endif
