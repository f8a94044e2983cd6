/** \file proof.h  Authentication of the job's ranks: keyed hashes on packets, and a mutual
 * handshake that proves possession of the job's key when a connection is opened. Internal to
 * watch. */
#ifndef CT_WATCH_PROOF_H
#define CT_WATCH_PROOF_H
#include "base/ct_sip.h"

/* ---- packets ---- */

/** Header of each packet. */
typedef struct ct__watch_seal {
  uint64_t hash;   /**< keyed hash of everything after it */
  uint64_t number; /**< sequence number of the rank's packets, from 1 */
} ct__watch_seal_t;

/** Writes the seal into a packet of \a bytes bytes, which has space for it. */
void ct__watch_seal(const ct_sip_key_t *key, uint64_t number, void *packet, size_t bytes);
/** Returns the packet's number, or 0 if the packet is not from this job. */
uint64_t ct__watch_sealed(const ct_sip_key_t *key, const void *packet, size_t bytes);

/** Packet numbers already received from a rank (replay window). */
typedef struct ct__watch_heard {
  uint64_t last;   /**< highest number received */
  uint64_t before; /**< one bit for each of the last 64 numbers, 1: received; bit 0 is for `last` */
} ct__watch_heard_t;
/** Returns 1 once per number: replayed packets are rejected. A packet may be overtaken by 63
 * others. */
int ct__watch_is_new(ct__watch_heard_t *h, uint64_t number);

/* ---- connections ---- */

enum { CT__WATCH_NONCE = 16, CT__WATCH_GUESTS = 32 };
#define CT__WATCH_GUEST_S 3.0 /* seconds for a guest to authenticate */

/** A connection to be established. */
typedef struct ct__watch_pair {
  ct_sip_key_t key;
  int32_t from; /* the connecting rank */
  int32_t to;   /* the listening rank */
} ct__watch_pair_t;

/** The connecting side's reply to the listener's nonce. */
typedef struct ct__watch_hello {
  unsigned char nonce[CT__WATCH_NONCE];
  uint64_t proof;
} ct__watch_hello_t;

/** Connecting side of the handshake: 1 if both sides have proved that they have the key. Waits up
 * to the socket's timeout. */
int ct__watch_knock(int fd, const ct__watch_pair_t *pair);

typedef struct ct__watch_guest {
  int fd;       /* -1: unused entry */
  double until; /* ct_clock() */
  size_t bytes; /* received so far of its hello */
  unsigned char nonce[CT__WATCH_NONCE];
  ct__watch_hello_t hello;
} ct__watch_guest_t;

/** Accepted connections that are not authenticated yet. Handled without waiting. */
typedef struct ct__watch_door {
  ct__watch_guest_t guest[CT__WATCH_GUESTS];
} ct__watch_door_t;

void ct__watch_door_init(ct__watch_door_t *d);
/** Closes the connections of all guests. */
void ct__watch_door_clear(ct__watch_door_t *d);
/** Accepts pending connections. If there are too many, the oldest guests are closed. */
void ct__watch_door_open(ct__watch_door_t *d, int listener);
/** Reads from all guests. Returns the connection of the guest that \a pair expects once it is
 * authenticated, else -1. */
int ct__watch_door_hear(ct__watch_door_t *d, const ct__watch_pair_t *pair);

#endif
