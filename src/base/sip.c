/* SipHash-2-4, equal to its authors' reference implementation, and random keys for it. */
#include "base/ct_sip.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/ct_err.h"

typedef struct sip {
  uint64_t v0, v1, v2, v3;
} sip_t;

static uint64_t rotate(uint64_t x, int bits)
{
  return x << bits | x >> (64 - bits);
}

static void mix(sip_t *s, int rounds)
{
  for (int i = 0; i < rounds; i++) {
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
  }
}

static void absorb(sip_t *s, uint64_t word)
{
  s->v3 ^= word;
  mix(s, 2);
  s->v0 ^= word;
}

/* Reads up to eight bytes, the lowest first. */
static uint64_t sip_word_of(const unsigned char *p, size_t bytes)
{
  uint64_t word = 0;
  for (size_t i = 0; i < bytes; i++)
    word |= (uint64_t)p[i] << 8 * i;
  return word;
}

uint64_t ct_sip(const ct_sip_key_t *key, const void *data, size_t bytes)
{
  const unsigned char *p = data;
  size_t whole = bytes / 8 * 8;
  sip_t s = {key->k[0] ^ 0x736f6d6570736575U, key->k[1] ^ 0x646f72616e646f6dU,
             key->k[0] ^ 0x6c7967656e657261U, key->k[1] ^ 0x7465646279746573U};
  for (size_t at = 0; at < whole; at += 8)
    absorb(&s, sip_word_of(p + at, 8));
  absorb(&s, (uint64_t)bytes << 56 | sip_word_of(p + whole, bytes - whole));
  s.v2 ^= 0xff;
  mix(&s, 4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

int ct_random(void *out, size_t bytes)
{
  int rc = CT_OK;
  for (size_t done = 0; done < bytes;) {
    ssize_t n = getrandom((char *)out + done, bytes - done, 0);
    if (n < 0 && errno != EINTR)
      CT_FAIL(CT_ERR_IO, "the kernel gives no random bytes: %s", strerror(errno));
    if (n > 0) done += (size_t)n;
  }
out:
  return rc;
}
