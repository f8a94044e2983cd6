/** \file watch.h  Messages between watch threads and their evaluation: cards, states, verdict,
 * /proc, sockets. Internal to watch. */
#ifndef CT_WATCH_WATCH_H
#define CT_WATCH_WATCH_H
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  CT__WATCH_ADDRESSES = 8,
  CT__WATCH_NAMED = 8, /* late ranks that get one line each */
  CT__WATCH_STACKS = 3,
  CT__WATCH_TEXT = 1200 /* fits in a packet without fragmentation */
};

/** Addresses of a rank's sockets. */
typedef struct ct__watch_sockets {
  struct in6_addr at; /**< IPv4 as ::ffff:a.b.c.d */
  uint16_t udp;       /**< port */
  uint16_t tcp;       /**< port */
  int32_t open;       /**< 0: the rank could not open its sockets */
} ct__watch_sockets_t;

/** Static description of a rank, sent at the start. Every rank has the cards of all ranks. */
typedef struct ct__watch_card {
  char host[64];
  int32_t pid;
  uint64_t started; /**< start time; with pid it identifies the process */
  uint64_t machine; /**< equal on ranks that can see each other's pid; 0: unknown */
  ct__watch_sockets_t sockets;
} ct__watch_card_t;

/** A rank's reply when asked for its state. */
typedef struct ct__watch_state {
  int32_t answered; /**< 0: no reply; only `seen` is valid */
  int32_t local;    /**< 1: outside of collective operations, 0: in one */
  int64_t step, calls, detail;
  double doing_s; /**< seconds since the rank entered the operation */
  double idle_s;  /**< seconds since anything completed on the rank, in its own ticks */
  char doing[64];
  char file[256]; /**< file that it waits for, or "" */
  char seen[96];  /**< the kernel's view of its main thread, such as "sleeps in futex_wait" */
} ct__watch_state_t;

/* ---- verdict.c: pure ---- */

typedef enum {
  CT__WATCH_FINE,    /**< something has completed on some rank */
  CT__WATCH_SILENT,  /**< late: ranks that do not reply */
  CT__WATCH_BEHIND,  /**< late: ranks that have entered the fewest collective operations */
  CT__WATCH_BUSY,    /**< late: ranks outside of collective operations, while others are in one */
  CT__WATCH_TOGETHER /**< all ranks are in the same operation */
} ct__watch_finding_t;

typedef struct ct__watch_verdict {
  ct__watch_finding_t finding;
  int late;                   /**< number of late ranks */
  int named[CT__WATCH_NAMED]; /**< the lowest late ranks */
  int other;                  /**< lowest rank that is not late; -1: none */
  double idle_s;              /**< since something completed on any rank that replies */
} ct__watch_verdict_t;

/** Judges the replies \a state of n ranks, of which at least one has replied. \a limit_s: the time
 * limit without any completion. */
void ct__watch_judge(const ct__watch_state_t *state, int n, double limit_s,
                     ct__watch_verdict_t *out);
/** Writes the message that ends the job to \a buf. */
void ct__watch_sentence(const ct__watch_verdict_t *v, const ct__watch_card_t *card,
                        const ct__watch_state_t *state, int n, char *buf, size_t cap);
/** Writes the message that ends a blocked startup after a signal to \a buf. */
void ct__watch_blocked(const ct__watch_card_t *card, const ct__watch_state_t *state,
                       const char *request, int rank, char *buf, size_t cap);
/** Writes one line about a rank to \a buf. */
void ct__watch_line(const ct__watch_card_t *card, const ct__watch_state_t *state, int rank,
                    char *buf, size_t cap);
/** Describes the state letter of /proc/PID/stat and the kernel function in which the process
 * sleeps. letter 0: the process does not exist. */
void ct__watch_words(char letter, const char *sleeps_in, char *buf, size_t cap);

/* ---- proc.c: this process and others on the node ---- */

/** Fills in everything but the socket addresses. */
void ct__watch_describe(ct__watch_card_t *card, const char *host);
/** Identifies the network namespace: if equal on two ranks, they reach each other over loopback; 0:
 * unknown. */
uint64_t ct__watch_network(void);
/** Describes the kernel's view of another process on this machine in \a buf. */
void ct__watch_see(const ct__watch_card_t *of, char *buf, size_t cap);
/** Kills the process if it is still the one on the card. */
void ct__watch_kill(const ct__watch_card_t *of);
/** Describes the kernel's view of a thread of this process in \a buf. */
void ct__watch_see_thread(pid_t thread, char *buf, size_t cap);
/** Selects the calling thread for stack traces. */
void ct__watch_stack_open(void);
void ct__watch_stack_close(void);
/** Writes the stack trace of the selected thread to \a buf, one line per call, innermost first; or
 * the kernel's view of the thread if it does not react. */
void ct__watch_stack(char *buf, size_t cap);

/* ---- networks.c: addresses ---- */

/** An address and the length of its network prefix. */
typedef struct ct__watch_address {
  struct in6_addr at; /**< IPv4 as ::ffff:a.b.c.d */
  int32_t bits;       /**< prefix length, of 128 bits */
} ct__watch_address_t;

/** The addresses of a rank's node. */
typedef struct ct__watch_addresses {
  uint64_t network; /**< ct__watch_network() */
  int32_t n;
  ct__watch_address_t address[CT__WATCH_ADDRESSES];
} ct__watch_addresses_t;

/** Fills in everything but `network`. */
void ct__watch_addresses(ct__watch_addresses_t *out);
/** Pure. Chooses the address at which a rank listens: loopback if that reaches all ranks, else one
 * in a network that all nodes share. \a choice numbers the candidates from 0. Returns 0 on all
 * ranks once all candidates have been tried. */
int ct__watch_choose(const ct__watch_addresses_t *all, int ranks, int rank, int choice,
                     struct in6_addr *out);
/** Pure. Returns the addresses of a rank on another node; NULL: all ranks are on this node. */
const ct__watch_addresses_t *ct__watch_far(const ct__watch_addresses_t *all, int ranks, int rank);

/* ---- net.c: sockets ---- */

typedef struct ct__watch_net {
  int udp;      /**< descriptor; -1: not open */
  int listener; /**< descriptor; -1: not open */
} ct__watch_net_t;

/** Permitted port range; 0, 0: any port. */
typedef struct ct__watch_ports {
  int low, high;
} ct__watch_ports_t;

/** Pure. Parses "LOW:HIGH"; NULL or "": any port. CT_ERR_USAGE. */
int ct__watch_ports(const char *text, ct__watch_ports_t *out);
const char *ct__watch_address_text(const struct in6_addr *at, char *buf, size_t cap);
/** Finds the local address from which the first reachable address of another node is reached.
 * Returns 0 if no address is reachable. */
int ct__watch_route(const ct__watch_addresses_t *to, struct in6_addr *out);
/** Opens both sockets at the address and stores their ports in \a sockets. 0, or -1 on failure
 * (errno). */
int ct__watch_net_open(ct__watch_net_t *net, const struct in6_addr *at,
                       const ct__watch_ports_t *ports, ct__watch_sockets_t *sockets);
/** Stops accepting connections. */
void ct__watch_net_shut(ct__watch_net_t *net);
void ct__watch_net_close(ct__watch_net_t *net);
/** Sends one packet; errors are ignored, as UDP packets may be lost anyway. */
void ct__watch_net_send(const ct__watch_net_t *net, const ct__watch_sockets_t *to,
                        const void *packet, size_t bytes);
/** Returns a connected socket with the given timeout, or -1. */
int ct__watch_net_connect(const ct__watch_sockets_t *to, double seconds);

#endif
