/* XXH3, inlined from its header, behind three functions, and CRC-32C, which xxHash does not have.
 */
#include "base/ct_hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ct_hash(const void *data, size_t bytes, uint64_t seed)
{
  return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t ct_hash_text(const char *text, uint64_t seed)
{
  return ct_hash(text, strlen(text), seed);
}

uint64_t ct_hash_int(int64_t value, uint64_t seed)
{
  return ct_hash(&value, sizeof value, seed);
}

/* Processes one byte at a time with a table: fast enough for checksums of a few kilobytes. */
uint32_t ct_crc32c(const void *data, size_t bytes)
{
  static uint32_t table[256];
  const unsigned char *p = data;
  uint32_t crc = 0xffffffffU;
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t v = i;
      for (int bit = 0; bit < 8; bit++)
        v = v & 1 ? v >> 1 ^ 0x82f63b78U : v >> 1;
      table[i] = v;
    }
  for (size_t i = 0; i < bytes; i++)
    crc = table[(crc ^ p[i]) & 0xff] ^ crc >> 8;
  return ~crc;
}
