/* fletcher32 (H5Zfletcher32.c, H5checksum.c): four bytes after the chunk, with the sum of its
 * big-endian 16-bit words and the sum of these sums, modulo 65535 but represented as 65535 instead
 * of 0 unless all words are 0. */
#include "hdf5io/filter/h5_filter.h"

enum { WORDS = 256 /* words whose sums fit into 32 bits: 65535 * 256 * 257 / 2 */ };

static uint32_t word(const uint8_t *p)
{
  return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t fold(uint64_t sum)
{
  return sum == 0 ? 0 : (uint32_t)((sum - 1) % 65535 + 1);
}

/* A block of n words adds to the second sum n times the previous first sum. */
static uint32_t fletcher32(const uint8_t *p, size_t bytes)
{
  uint64_t first = 0, second = 0;
  size_t words = bytes / 2;
  while (words > 0) {
    size_t n = words < WORDS ? words : WORDS;
    uint32_t sum = 0, sums = 0;
    for (uint32_t i = 0; i < n; i++) {
      sum += word(p + 2 * i);
      sums += ((uint32_t)n - i) * word(p + 2 * i);
    }
    second = fold(second + n * first + sums);
    first = fold(first + sum);
    p += 2 * n;
    words -= n;
  }
  if (bytes & 1) {
    first = fold(first + ((uint32_t)*p << 8));
    second = fold(second + first);
  }
  return (uint32_t)second << 16 | (uint32_t)first;
}

/* Writers before HDF5 1.6.3 swapped the bytes of each half on some machines; HDF5 accepts that
 * too. */
static uint32_t swapped(uint32_t sum)
{
  return (sum & 0x00ff00ffu) << 8 | (sum & 0xff00ff00u) >> 8;
}

static const char *filter_fletcher_check(ct__h5_bytes_t *bytes)
{
  if (bytes->n < 4) return "it is too short";
  bytes->n -= 4;
  const uint8_t *end = bytes->at + bytes->n;
  uint32_t stored =
      end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
  uint32_t sum = fletcher32(bytes->at, bytes->n);
  return stored == sum || stored == swapped(sum) ? NULL : "its checksum (fletcher32) is wrong";
}

const ct__h5_filter_t ct__h5_filter_fletcher32 = {H5Z_FILTER_FLETCHER32,
                                                  .check = filter_fletcher_check};
