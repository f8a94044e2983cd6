/** \file ct_hash.h  64-bit hashes (XXH3), and a checksum.  Layer 0. */
#ifndef CT_HASH_H
#define CT_HASH_H
#include <stddef.h>
#include <stdint.h>

/** Hash of a block of bytes.  To chain blocks, pass the previous hash as \a seed, 0 for the first.
 */
uint64_t ct_hash(const void *data, size_t bytes, uint64_t seed);
uint64_t ct_hash_text(const char *text, uint64_t seed);
uint64_t ct_hash_int(int64_t value, uint64_t seed);
/** CRC-32C (Castagnoli; RFC 3720, B.4). */
uint32_t ct_crc32c(const void *data, size_t bytes);

#endif
