/* Zstandard (filter 32015): the chunk is a zstd frame. */
#include "config.h"
#include "hdf5io/filter/h5_filter.h"
#ifdef HAVE_ZSTD
#  include <zstd.h>
#endif

int ct__h5_unzstd(ct__h5_decoder_t *d, ct__h5_bytes_t from, uint8_t *to, size_t *bytes)
{
#ifdef HAVE_ZSTD
  *bytes = ZSTD_decompressDCtx(d->zstd, to, *bytes, from.at, from.n);
  return !ZSTD_isError(*bytes);
#else
  return (void)d, (void)from, (void)to, (void)bytes, 0;
#endif
}

static const char *filter_zstd_decode(ct__h5_decoder_t *d, const ct__h5_step_t *step,
                                      ct__h5_bytes_t from, uint8_t *to, size_t *bytes)
{
  (void)step;
  return ct__h5_unzstd(d, from, to, bytes) ? NULL : "it cannot be decompressed";
}

const ct__h5_filter_t ct__h5_filter_zstd = {CT__H5_ZSTD, 1, .decode = filter_zstd_decode};
