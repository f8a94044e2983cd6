/* LZ4 (filter 32004, H5Zlz4.c): the plain bytes' number and that of a block, then the blocks, each
 * with its number of bytes; one that is not smaller is stored as it is. */
#include <string.h>

#include "config.h"
#include "hdf5io/filter/h5_filter.h"
#ifdef HAVE_LZ4
#  include <limits.h>
#  include <lz4.h>
#endif

int ct__h5_unlz4(ct__h5_bytes_t from, uint8_t *to, size_t bytes)
{
#ifdef HAVE_LZ4
  if (from.n > INT_MAX || bytes > INT_MAX) return 0;
  int got = LZ4_decompress_safe((const char *)from.at, (char *)to, (int)from.n, (int)bytes);
  return got >= 0 && (size_t)got == bytes;
#else
  return (void)from, (void)to, (void)bytes, 0;
#endif
}

static const char *unlz4(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                         uint8_t *to, size_t *bytes)
{
  (void)d, (void)step;
  const uint8_t *p = from.at, *end = p + from.n;
  if (from.n < 12) return "it is too short";
  uint64_t plain = ct__h5_big64(p);
  size_t block = ct__h5_big32(p + 8), done = 0;
  if (plain > *bytes || (block == 0 && plain > 0)) return "it is too long, or its blocks are empty";
  for (p += 12; done < plain; done += block) {
    if (block > plain - done) block = plain - done;
    size_t stored = end - p >= 4 ? ct__h5_big32(p) : SIZE_MAX;
    if (stored > (size_t)(end - p) - 4) return "it ends inside a block";
    p += 4;
    if (stored == block)
      memcpy(to + done, p, block);
    else if (!ct__h5_unlz4((ct__h5_bytes_t){p, stored}, to + done, block))
      return "a block cannot be decompressed";
    p += stored;
  }
  *bytes = done;
  return NULL;
}

const ct__h5_filter_t ct__h5_filter_lz4 = {CT__H5_LZ4, 1, .decode = unlz4};
