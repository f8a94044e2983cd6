/** \file proof.h  Who belongs to the job: seals on packets, and a handshake at the beginning of a
 * connection, in which both sides show that they have the key.  Internal to watch. */
#ifndef CT_WATCH_PROOF_H
#define CT_WATCH_PROOF_H
#include "base/ct_sip.h"

/* ---- packets ---- */

/** How each packet begins. */
typedef struct ct__watch_seal {
  uint64_t hash;   /**< of all behind it, under the job's key */
  uint64_t number; /**< of a rank's packets, from 1 */
} ct__watch_seal_t;

/** Writes the seal of a packet of \a bytes bytes, which has room for it. */
void ct__watch_seal(const ct_sip_key_t *key, uint64_t number, void *packet, size_t bytes);
/** Its number, or 0: it is not of this job. */
uint64_t ct__watch_sealed(const ct_sip_key_t *key, const void *packet, size_t bytes);

/** Which packets of a rank have been here. */
typedef struct ct__watch_heard {
  uint64_t last, before; /**< a bit for each of the last 64, the lowest for the last one */
} ct__watch_heard_t;
/** 1, once for each number: who sends a packet of others again is not heard.  Packets may overtake
 * 63 others. */
int ct__watch_is_new(ct__watch_heard_t *h, uint64_t number);

/* ---- connections ---- */

enum { CT__WATCH_NONCE = 16, CT__WATCH_GUESTS = 32 };
#define CT__WATCH_GUEST_S 3.0 /* for him to show that he has the key */

/** A connection that is to be. */
typedef struct ct__watch_pair {
  ct_sip_key_t key;
  int32_t from, to; /* ranks: who connects, and who listens */
} ct__watch_pair_t;

/** What a guest says, when he has been given a nonce. */
typedef struct ct__watch_hello {
  unsigned char nonce[CT__WATCH_NONCE];
  uint64_t proof;
} ct__watch_hello_t;

/** For who connects: 1 if the other side has shown that it has the key, and has taken this one.
 * Waits as long as the socket is set to. */
int ct__watch_knock(int fd, const ct__watch_pair_t *pair);

typedef struct ct__watch_guest {
  int fd;       /* -1: nobody */
  double until; /* ct_clock() */
  size_t bytes; /* of his hello */
  unsigned char nonce[CT__WATCH_NONCE];
  ct__watch_hello_t hello;
} ct__watch_guest_t;

/** Those who have connected and are not known yet.  Nobody waits for them. */
typedef struct ct__watch_door {
  ct__watch_guest_t guest[CT__WATCH_GUESTS];
} ct__watch_door_t;

void ct__watch_door_init(ct__watch_door_t *d);
/** Closes the connections of all guests. */
void ct__watch_door_clear(ct__watch_door_t *d);
/** Lets in those who have come.  If there are too many, the first ones have to leave. */
void ct__watch_door_open(ct__watch_door_t *d, int listener);
/** Listens to all of them.  The connection of one who is expected, or -1. */
int ct__watch_door_hear(ct__watch_door_t *d, const ct__watch_pair_t *pair);

#endif
