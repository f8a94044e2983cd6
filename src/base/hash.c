/* XXH3, inlined from its header, behind three functions: nothing else sees the library. */
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
