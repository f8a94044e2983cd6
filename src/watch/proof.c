/* Authenticates packets and connections of this job's ranks: the key, which MPI distributed to all
 * ranks, is never sent over these sockets; only keyed hashes of fresh data are. */
#include "watch/proof.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"

/* ---- packets ---- */

enum { REMEMBERED = 64 };

static uint64_t hash_of(const ct_sip_key_t *key, const void *packet, size_t bytes)
{
  size_t head = sizeof((ct__watch_seal_t *)0)->hash;
  return ct_sip(key, (const char *)packet + head, bytes - head);
}

void ct__watch_seal(const ct_sip_key_t *key, uint64_t number, void *packet, size_t bytes)
{
  ct__watch_seal_t seal = {.number = number};
  memcpy(packet, &seal, sizeof seal);
  seal.hash = hash_of(key, packet, bytes);
  memcpy(packet, &seal, sizeof seal);
}

uint64_t ct__watch_sealed(const ct_sip_key_t *key, const void *packet, size_t bytes)
{
  ct__watch_seal_t seal;
  if (bytes < sizeof seal) return 0;
  memcpy(&seal, packet, sizeof seal);
  return seal.hash == hash_of(key, packet, bytes) ? seal.number : 0;
}

/* Implements the replay window of IPsec (RFC 4303, 3.4.3). */
int ct__watch_is_new(ct__watch_heard_t *h, uint64_t number)
{
  if (!number) return 0;
  if (number > h->last) {
    uint64_t by = number - h->last;
    h->before = by < REMEMBERED ? h->before << by | 1 : 1;
    h->last = number;
    return 1;
  }
  uint64_t ago = h->last - number;
  if (ago >= REMEMBERED || h->before >> ago & 1) return 0;
  h->before |= (uint64_t)1 << ago;
  return 1;
}

/* ---- connections ---- */

/* Keyed hash of the handshake so far, different for each side (\a who). */
static uint64_t proof(const ct__watch_pair_t *pair, char who, const ct__watch_hello_t *hello,
                      const unsigned char *nonce)
{
  struct {
    unsigned char host[CT__WATCH_NONCE], guest[CT__WATCH_NONCE];
    int32_t from, to, who, zero;
  } said = {.from = pair->from, .to = pair->to, .who = who};
  memcpy(said.host, nonce, CT__WATCH_NONCE);
  memcpy(said.guest, hello->nonce, CT__WATCH_NONCE);
  return ct_sip(&pair->key, &said, sizeof said);
}

static int hear(int fd, void *to, size_t bytes)
{
  return recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static int say(int fd, const void *from, size_t bytes)
{
  return send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

int ct__watch_knock(int fd, const ct__watch_pair_t *pair)
{
  unsigned char nonce[CT__WATCH_NONCE];
  ct__watch_hello_t hello = {0};
  uint64_t answer;
  if (ct_random(hello.nonce, sizeof hello.nonce) != CT_OK) return 0;
  if (!hear(fd, nonce, sizeof nonce)) return 0;
  hello.proof = proof(pair, 'G', &hello, nonce);
  return say(fd, &hello, sizeof hello) && hear(fd, &answer, sizeof answer) &&
         answer == proof(pair, 'H', &hello, nonce);
}

void ct__watch_door_init(ct__watch_door_t *d)
{
  for (int i = 0; i < CT__WATCH_GUESTS; i++)
    d->guest[i] = (ct__watch_guest_t){.fd = -1};
}

static void dismiss(ct__watch_guest_t *g)
{
  if (g->fd >= 0) close(g->fd);
  *g = (ct__watch_guest_t){.fd = -1};
}

void ct__watch_door_clear(ct__watch_door_t *d)
{
  for (int i = 0; i < CT__WATCH_GUESTS; i++)
    dismiss(&d->guest[i]);
}

/* Returns a free entry, or else the entry of the oldest guest: a peer with the key needs almost no
 * time. */
static ct__watch_guest_t *place_for_one(ct__watch_door_t *d)
{
  ct__watch_guest_t *oldest = &d->guest[0];
  for (int i = 0; i < CT__WATCH_GUESTS; i++) {
    ct__watch_guest_t *g = &d->guest[i];
    if (g->fd < 0) return g;
    if (g->until < oldest->until) oldest = g;
  }
  dismiss(oldest);
  return oldest;
}

void ct__watch_door_open(ct__watch_door_t *d, int listener)
{
  for (int i = 0; i < CT__WATCH_GUESTS; i++) { /* bounded, since connections may keep arriving */
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    ct__watch_guest_t *g = place_for_one(d);
    *g = (ct__watch_guest_t){.fd = fd, .until = ct_clock() + CT__WATCH_GUEST_S};
    if (ct_random(g->nonce, sizeof g->nonce) != CT_OK || !say(fd, g->nonce, sizeof g->nonce))
      dismiss(g);
  }
}

/* Returns 1 if the complete and correct hello has arrived. Waits for more bytes if it is
 * incomplete, and closes the connection if it is wrong. */
static int is_ours(ct__watch_guest_t *g, const ct__watch_pair_t *pair)
{
  ssize_t n = recv(g->fd, (char *)&g->hello + g->bytes, sizeof g->hello - g->bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  g->bytes += n > 0 ? (size_t)n : 0;
  if (n > 0 && g->bytes < sizeof g->hello) return 0;
  if (n > 0 && g->hello.proof == proof(pair, 'G', &g->hello, g->nonce)) {
    uint64_t answer = proof(pair, 'H', &g->hello, g->nonce);
    if (say(g->fd, &answer, sizeof answer)) return 1;
  }
  dismiss(g);
  return 0;
}

int ct__watch_door_hear(ct__watch_door_t *d, const ct__watch_pair_t *pair)
{
  double now = ct_clock();
  for (int i = 0; i < CT__WATCH_GUESTS; i++) {
    ct__watch_guest_t *g = &d->guest[i];
    if (g->fd >= 0 && is_ours(g, pair)) {
      int fd = g->fd;
      g->fd = -1;
      return fd;
    }
    if (g->fd >= 0 && now >= g->until) dismiss(g);
  }
  return -1;
}
