/* LZF, h5py's own filter (number 32000): a decoder for Marc Lehmann's LibLZF.
 *
 * The stream has literal runs of up to 32 bytes (a byte below 32: length minus one), and back
 * references: 3 bits of length, 13 bits of distance. */
#include <string.h>

#include "hdf5io/filter/h5_filter.h"

static const char *const damaged = "it cannot be decompressed";

/* Copies n bytes from before `to`; if the ranges overlap, the bytes repeat. */
static void repeat(uint8_t *to, size_t distance, size_t n)
{
  if (distance >= n) {
    memcpy(to, to - distance, n);
    return;
  }
  for (size_t i = 0; i < n; i++)
    to[i] = *(to + i - distance);
}

static const char *unlzf(ct__h5_decoder_t *d, const ct__h5_step_t *step, ct__h5_bytes_t from,
                         uint8_t *to, size_t *bytes)
{
  (void)d, (void)step;
  const uint8_t *p = from.at, *end = p + from.n;
  size_t done = 0, cap = *bytes;
  while (p < end) {
    size_t word = *p++, n = word + 1;
    if (word < 32) {
      if (n > (size_t)(end - p) || n > cap - done) return damaged;
      memcpy(to + done, p, n);
      p += n;
    } else {
      n = (word >> 5) + 2;
      if (n == 9 && p < end) n += *p++;
      if (p == end || n > cap - done) return damaged;
      size_t distance = ((word & 31) << 8) + *p++ + 1;
      if (distance > done) return damaged;
      repeat(to + done, distance, n);
    }
    done += n;
  }
  *bytes = done;
  return NULL;
}

const ct__h5_filter_t ct__h5_filter_lzf = {CT__H5_LZF, 1, .decode = unlzf};
