/* The table of filters decoded here, and the filters that need only one library call.
 *
 * The available libraries are determined at build time; an array that needs another filter is read
 * by HDF5, if it finds a plugin. */
#include "hdf5io/filter/h5_filter.h"

#include <libdeflate.h>

#include "config.h"
#include "hdf5io/ct_h5.h"
#ifdef HAVE_ZSTD
#  include <zstd.h>
#endif
#ifdef HAVE_BLOSC
#  include <blosc.h>
#endif

static const char *const cannot = "it cannot be decompressed";

static const char *inflate(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                           uint8_t *to, size_t *bytes)
{
  (void)step;
  enum libdeflate_result result =
      libdeflate_zlib_decompress(d->inflate, from.at, from.n, to, *bytes, bytes);
  return result == LIBDEFLATE_SUCCESS ? NULL : cannot;
}

#ifdef HAVE_BLOSC
static const char *unblosc(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                           uint8_t *to, size_t *bytes)
{
  (void)d, (void)step;
  size_t plain = 0;
  if (from.n < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(from.at, from.n, &plain) < 0)
    return "it is not a Blosc chunk";
  if (plain > *bytes) return "it is too long";
  int got = plain > 0 ? blosc_decompress_ctx(from.at, to, *bytes, 1) : 0;
  if (got < 0 || (size_t)got != plain) return cannot;
  *bytes = plain;
  return NULL;
}
#endif

static const ct__h5_filter_t deflate = {H5Z_FILTER_DEFLATE, 1, .decode = inflate};
#ifdef HAVE_BLOSC
static const ct__h5_filter_t blosc = {CT__H5_BLOSC, 1, .decode = unblosc};
#endif

static const ct__h5_filter_t *const list[] = {
    &deflate,
    &ct__h5_filter_shuffle,
    &ct__h5_filter_fletcher32,
    &ct__h5_filter_lzf,
    &ct__h5_filter_bitshuffle,
#ifdef HAVE_LZ4
    &ct__h5_filter_lz4,
#endif
#ifdef HAVE_ZSTD
    &ct__h5_filter_zstd,
#endif
#ifdef HAVE_BLOSC
    &blosc,
#endif
#ifdef HAVE_BLOSC2
    &ct__h5_filter_blosc2,
#endif
};

const char *ct_h5_filters(void)
{
  return "deflate, shuffle, fletcher32, lzf, bitshuffle"
#ifdef HAVE_LZ4
         ", lz4"
#endif
#ifdef HAVE_ZSTD
         ", zstd"
#endif
#ifdef HAVE_BLOSC
         ", blosc"
#endif
#ifdef HAVE_BLOSC2
         ", blosc2"
#endif
      ;
}

const ct__h5_filter_t *ct__h5_filter_find(int id)
{
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    if (list[i]->id == id) return list[i];
  return NULL;
}
