/** \file ct_hash.h  64-bit hashes (XXH3), and a checksum.  Layer 0. */
#ifndef CT_HASH_H
#define CT_HASH_H
#include <stddef.h>
#include <stdint.h>

/** Return a hash of bytes, of a text, and of an integer.  To hash several values, pass the previous
 * hash as \a seed, and 0 with the first value. */
uint64_t ct_hash(const void *data, size_t bytes, uint64_t seed);
uint64_t ct_hash_text(const char *text, uint64_t seed);
uint64_t ct_hash_int(int64_t value, uint64_t seed);
/** Returns the CRC-32C (Castagnoli; RFC 3720, B.4) of bytes. */
uint32_t ct_crc32c(const void *data, size_t bytes);

#endif
