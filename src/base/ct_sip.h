/** \file ct_sip.h  A keyed hash for authentication.  Layer 0.
 *
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012).  The
 * hashes of ct_hash.h have no key and authenticate nothing. */
#ifndef CT_SIP_H
#define CT_SIP_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct_sip_key {
  uint64_t k[2];
} ct_sip_key_t;

/** Pure.  Returns the hash of \a bytes bytes under a key. */
uint64_t ct_sip(const ct_sip_key_t *key, const void *data, size_t bytes);
/** Local.  Fills \a out with unpredictable bytes from the kernel.  CT_ERR_IO if the
 * kernel does not provide them. */
int ct_random(void *out, size_t bytes);

#endif
