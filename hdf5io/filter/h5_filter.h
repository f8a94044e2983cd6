/** \file h5_filter.h  HDF5 filters decoded by this program, one table row each. Internal.
 *
 * Filter numbers are HDF5's own, or registered with The HDF Group
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
  CT__H5_BIT_BLOCK = 64 << 10 /* maximum bytes of a bitshuffle block: eight times its default */
};

/** Data between two filters. */
typedef struct ct__h5_bytes {
  const uint8_t *at;
  size_t n;
} ct__h5_bytes_t;

typedef struct ct__h5_filter {
  int id;
  int compresses;
  /* Reads the filter's settings from n filter parameters. Returns 1, or 0 if only HDF5 can decode
   * data with these settings. NULL: the filter has no settings. */
  int (*know)(ct__h5_step_t *step, size_t n, const unsigned *values);
  /* Decodes into `to`, whose capacity is *bytes; sets *bytes to the size. Returns NULL, or a
   * description of the error. NULL for filters that only check. */
  const char *(*decode)(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                        uint8_t *to, size_t *bytes);
  /* Verifies the bytes and removes its checksum from their end. */
  const char *(*check)(ct__h5_bytes_t *bytes);
} ct__h5_filter_t;

/** Returns the filter with HDF5's number \a id; NULL if this program does not decode it, or was
 * built without the library for it. */
const ct__h5_filter_t *ct__h5_filter_find(int id);

extern const ct__h5_filter_t ct__h5_filter_shuffle, ct__h5_filter_fletcher32, ct__h5_filter_lzf,
    ct__h5_filter_lz4, ct__h5_filter_zstd, ct__h5_filter_bitshuffle, ct__h5_filter_blosc2;

/** Reverses the shuffle filter, which stores the first bytes of all elements, then all second
 * bytes, and so on; a remainder smaller than an element stays unchanged at the end (H5Zshuffle.c).
 * \a bytes bytes of elements of \a item bytes. */
void ct__h5_unshuffle(const uint8_t *from, size_t bytes, size_t item, uint8_t *to);

/** Decompress LZ4 or zstd data to exactly \a bytes bytes. Return 1, or 0 on failure. */
int ct__h5_unlz4(ct__h5_bytes_t from, uint8_t *to, size_t bytes);
int ct__h5_unzstd(ct__h5_decoder_t *d, ct__h5_bytes_t from, uint8_t *to, size_t *bytes);

/** Read big-endian numbers; the caller has checked that the bytes exist. */
static inline uint32_t ct__h5_big32(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t ct__h5_big64(const uint8_t *p)
{
  return (uint64_t)ct__h5_big32(p) << 32 | ct__h5_big32(p + 4);
}

#endif
