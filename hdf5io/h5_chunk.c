/* Decodes chunks without HDF5: its lock is one for the whole process, so with HDF5's own filters
 * only one thread of a rank could decompress.  libdeflate is faster than the zlib that HDF5 uses,
 * too. */
#include "hdf5io/h5_chunk.h"

#include <string.h>

size_t ct__h5_chunk_bound(size_t bytes)
{
  return bytes + bytes / 500 + 64; /* more than zlib's compressBound() */
}

/* Shuffled: the first bytes of all elements, then all second bytes, …; a rest that is no whole
 * element stands at the end as it is (H5Zshuffle.c). */
static void unshuffle(const uint8_t *from, size_t bytes, size_t item, uint8_t *to)
{
  size_t n = bytes / item;
  for (size_t k = 0; k < item; k++)
    for (size_t i = 0; i < n; i++)
      to[i * item + k] = from[k * n + i];
  memcpy(to + n * item, from + n * item, bytes - n * item);
}

int ct__h5_chunk_decode(struct libdeflate_decompressor *d, const ct__h5_filters_t *f,
                        uint32_t skipped, const void *raw, size_t raw_bytes, void *scratch,
                        void *out, size_t bytes)
{
  int shuffled = f->shuffle >= 0 && !(skipped >> f->shuffle & 1) && f->item > 1;
  int deflated = f->deflate >= 0 && !(skipped >> f->deflate & 1);
  void *plain = shuffled ? scratch : out;
  size_t got = raw_bytes;
  if (deflated &&
      libdeflate_zlib_decompress(d, raw, raw_bytes, plain, bytes, &got) != LIBDEFLATE_SUCCESS)
    return 0;
  if (got != bytes) return 0;
  if (!deflated) memcpy(plain, raw, bytes);
  if (shuffled) unshuffle(plain, bytes, f->item, out);
  return 1;
}
