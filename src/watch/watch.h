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
  CT__WATCH_ADDRESSES = 4,
  CT__WATCH_NAMED = 8, /* late ranks that get a line each */
  CT__WATCH_STACKS = 3,
  CT__WATCH_TEXT = 1200 /* a packet that needs no fragments */
};

/** What a rank tells of itself when it starts.  All ranks have all cards. */
typedef struct ct__watch_card {
  char host[64];
  int32_t pid;
  uint64_t started;  /**< with pid: this process and no later one */
  uint64_t machine;  /**< the same: one sees the other's pid; 0: unknown */
  uint64_t network;  /**< the same: loopback reaches it; 0: unknown */
  uint16_t udp, tcp; /**< ports */
  int32_t addresses;
  struct in6_addr address[CT__WATCH_ADDRESSES]; /**< IPv4 as ::ffff:a.b.c.d */
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

/** Fills in all but addresses and ports. */
void ct__watch_describe(ct__watch_card_t *card, const char *host);
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

/* ---- net.c: sockets ---- */

typedef struct ct__watch_net {
  int family;        /**< AF_INET6, which does IPv4 too, or AF_INET */
  int udp, listener; /**< -1: not open */
} ct__watch_net_t;

/** Fills in the card's ports and addresses.  0, or -1 without sockets (errno). */
int ct__watch_net_open(ct__watch_net_t *net, ct__watch_card_t *mine);
void ct__watch_net_close(ct__watch_net_t *net);
/** To all addresses of a rank.  What cannot be sent is lost, as packets are. */
void ct__watch_net_send(const ct__watch_net_t *net, const ct__watch_card_t *mine,
                        const ct__watch_card_t *to, const void *packet, size_t bytes);
/** Who is at the other end of a connection. */
typedef struct ct__watch_hello {
  uint64_t key;
  int32_t from, to;
} ct__watch_hello_t;
/** Connects to a rank, and waits until it has taken the connection.  A socket, or -1. */
int ct__watch_net_connect(const ct__watch_net_t *net, const ct__watch_card_t *mine,
                          const ct__watch_card_t *to, const ct__watch_hello_t *hello);
/** Takes a connection if it is the one that is expected.  A socket, or -1. */
int ct__watch_net_accept(const ct__watch_net_t *net, const ct__watch_hello_t *expected);

#endif
