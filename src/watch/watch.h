/** \file watch.h  What ranks tell each other, and what is made of it: cards, states, verdict,
 * /proc, sockets.  Internal to watch. */
#ifndef CT_WATCH_WATCH_H
#define CT_WATCH_WATCH_H
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  CT__WATCH_ADDRESSES = 8,
  CT__WATCH_NAMED = 8, /* late ranks that get a line each */
  CT__WATCH_STACKS = 3,
  CT__WATCH_TEXT = 1200 /* a packet that needs no fragments */
};

/** Where a rank's sockets are. */
typedef struct ct__watch_place {
  struct in6_addr at; /**< IPv4 as ::ffff:a.b.c.d */
  uint16_t udp, tcp;  /**< ports */
  int32_t open;       /**< 0: it has none */
} ct__watch_place_t;

/** What a rank tells of itself when it starts.  All ranks have all cards. */
typedef struct ct__watch_card {
  char host[64];
  int32_t pid;
  uint64_t started; /**< with pid: this process and no later one */
  uint64_t machine; /**< the same: one sees the other's pid; 0: unknown */
  ct__watch_place_t place;
} ct__watch_card_t;

/** What a rank answers when it is asked where it is. */
typedef struct ct__watch_state {
  int32_t answered; /**< 0: it did not, and only `seen` counts */
  int32_t local;    /**< 1: in work of its own, 0: in a collective operation */
  int64_t step, calls, detail;
  double doing_s, idle_s; /**< since it entered that; since anything ended, in its own ticks */
  char doing[64];
  char file[256]; /**< the file that it waits for, if it does; "" */
  char seen[96];  /**< what the system says of its main thread, "sleeps in futex_wait" */
} ct__watch_state_t;

/* ---- verdict.c: pure ---- */

typedef enum {
  CT__WATCH_FINE,    /**< something has ended on some rank */
  CT__WATCH_SILENT,  /**< late: those that do not answer */
  CT__WATCH_BEHIND,  /**< late: those that have entered the fewest collective operations */
  CT__WATCH_BUSY,    /**< late: those in work of their own, while others are in an operation */
  CT__WATCH_TOGETHER /**< all are in the same */
} ct__watch_finding_t;

typedef struct ct__watch_verdict {
  ct__watch_finding_t finding;
  int late;                   /**< how many ranks */
  int named[CT__WATCH_NAMED]; /**< the lowest of them */
  int other;                  /**< lowest rank that is not late; -1: none */
  double idle_s;              /**< since something ended on any rank that answers */
} ct__watch_verdict_t;

/** \a state holds n ranks; at least one has answered.  \a limit_s: how long nothing must end. */
void ct__watch_judge(const ct__watch_state_t *state, int n, double limit_s,
                     ct__watch_verdict_t *out);
/** The sentence that ends the job. */
void ct__watch_sentence(const ct__watch_verdict_t *v, const ct__watch_card_t *card,
                        const ct__watch_state_t *state, int n, char *buf, size_t cap);
/** The sentence that ends a start: a rank is blocked, and a signal came. */
void ct__watch_blocked(const ct__watch_card_t *card, const ct__watch_state_t *state,
                       const char *request, int rank, char *buf, size_t cap);
/** A line about one rank. */
void ct__watch_line(const ct__watch_card_t *card, const ct__watch_state_t *state, int rank,
                    char *buf, size_t cap);
/** The letter of /proc/PID/stat and the kernel function in which it sleeps, in words.  letter 0:
 * there is no such process. */
void ct__watch_words(char letter, const char *sleeps_in, char *buf, size_t cap);

/* ---- proc.c: this process and its neighbours ---- */

/** Fills in all but the place. */
void ct__watch_describe(ct__watch_card_t *card, const char *host);
/** The same on two ranks: loopback reaches the other; 0: unknown. */
uint64_t ct__watch_network(void);
/** What the system says of another process of this machine. */
void ct__watch_see(const ct__watch_card_t *of, char *buf, size_t cap);
/** Kills it, if it still is that process. */
void ct__watch_kill(const ct__watch_card_t *of);
/** What the system says of one of this process's threads. */
void ct__watch_see_thread(pid_t thread, char *buf, size_t cap);
/** Makes the calling thread the one whose stack is shown. */
void ct__watch_stack_open(void);
void ct__watch_stack_close(void);
/** Its stack, a line for each call, innermost first; or what the system says if it does not react.
 */
void ct__watch_stack(char *buf, size_t cap);

/* ---- networks.c: addresses ---- */

/** An address, and how many of its first bits name its network. */
typedef struct ct__watch_address {
  struct in6_addr at; /**< IPv4 as ::ffff:a.b.c.d */
  int32_t bits;       /**< of 128 */
} ct__watch_address_t;

/** Of a rank's node. */
typedef struct ct__watch_addresses {
  uint64_t network; /**< ct__watch_network() */
  int32_t n;
  ct__watch_address_t address[CT__WATCH_ADDRESSES];
} ct__watch_addresses_t;

/** Fills in all but `network`. */
void ct__watch_addresses(ct__watch_addresses_t *out);
/** Pure.  At which address a rank listens: of loopback if that reaches all ranks, else in a network
 * that all nodes are in; \a choice counts these, from 0.  0 on all ranks: there are no more. */
int ct__watch_choose(const ct__watch_addresses_t *all, int ranks, int rank, int choice,
                     struct in6_addr *out);
/** Pure.  The addresses of a rank on another node; NULL: there is none. */
const ct__watch_addresses_t *ct__watch_far(const ct__watch_addresses_t *all, int ranks, int rank);

/* ---- net.c: sockets ---- */

typedef struct ct__watch_net {
  int udp, listener; /**< -1: not open */
} ct__watch_net_t;

/** Ports that may be used; 0, 0: any. */
typedef struct ct__watch_ports {
  int low, high;
} ct__watch_ports_t;

/** Pure.  "LOW:HIGH"; NULL or "": any.  CT_ERR_USAGE. */
int ct__watch_ports(const char *text, ct__watch_ports_t *out);
const char *ct__watch_address_text(const struct in6_addr *at, char *buf, size_t cap);
/** From which of this node's addresses the first one of another node is reached that can be.  0:
 * none. */
int ct__watch_route(const ct__watch_addresses_t *to, struct in6_addr *out);
/** Opens both at that address, and says where they are.  0, or -1 without sockets (errno). */
int ct__watch_net_open(ct__watch_net_t *net, const struct in6_addr *at,
                       const ct__watch_ports_t *ports, ct__watch_place_t *place);
/** No more connections. */
void ct__watch_net_shut(ct__watch_net_t *net);
void ct__watch_net_close(ct__watch_net_t *net);
/** What cannot be sent is lost, as packets are. */
void ct__watch_net_send(const ct__watch_net_t *net, const ct__watch_place_t *to, const void *packet,
                        size_t bytes);
/** A socket that is connected to a rank, or to whoever is there, and waits so many seconds at a
 * time; or -1. */
int ct__watch_net_connect(const ct__watch_place_t *to, double seconds);

#endif
