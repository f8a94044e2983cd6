/** \file thread.h  What the watch's thread knows and does.  Internal to watch. */
#ifndef CT_WATCH_THREAD_H
#define CT_WATCH_THREAD_H
#include <stdatomic.h>

#include "base/ct_heartbeat.h"
#include "watch/ct_watch.h"
#include "watch/proof.h"
#include "watch/watch.h"

/** A connection to a neighbour in the ring. */
typedef struct ct__watch_link {
  int peer;        /**< rank */
  atomic_int fd;   /**< -1: none (any more) */
  int bye;         /**< it has said that it closes */
  int lost;        /**< it has ended without that, maybe to be made again before `agreed` */
  double silent_s; /**< how long its neighbours leave it to others to tell of its death */
  double died_at;  /**< ct_clock(); 0: it lives */
} ct__watch_link_t;

struct ct_watch {
  const ct_topo_t *t; /* borrowed */
  _Atomic double limit_s;
  ct_sip_key_t key;        /* of this job: packets that are not sealed with it are not ours */
  _Atomic uint64_t number; /* of the last packet */
  void (*take)(ct_watch_t *w, const void *packet, size_t bytes); /* ct__watch_take() */
  int rank, ranks;
  ct__watch_card_t *card;           /* owned; of all ranks */
  ct__watch_addresses_t *addresses; /* owned; of all ranks' nodes, until one is chosen */
  ct__watch_ports_t ports;
  ct__watch_state_t *state; /* owned; of all ranks: what they answered last */
  ct__watch_heard_t *had;   /* owned; of all ranks: which packets were here */
  ct__watch_net_t net;
  ct__watch_link_t next, prev;
  pthread_t thread;
  int runs; /* there is a thread */
  pid_t main_thread;
  int wake;                  /* eventfd: look at `closing` */
  atomic_int closing, heard; /* asked to end; a rank has answered */
  atomic_int agreed;         /* all ranks reach each other: nobody else may come */
  atomic_int ending;         /* MPI is being finalized */
  atomic_int status;         /* exit status if it does not come to its end */
  atomic_int shows_start;

  /* the thread's own */
  ct__watch_door_t door;
  ct_beat_t beat; /* when last looked at */
  double ticked_at, idle_s;
  double cpu_s, quiet_s; /* of the process; since it used a core, or anything ended */
  int64_t request;       /* to stop: of this rank, or of another (ct_stop_pack()) */
  double asked_s;        /* since then */
  int told;              /* all have heard of it */
  int passed_on;         /* rank 0 has heard of it */
  int quits;             /* it was said that the job ends at once */
  const char *said;      /* what the start was said to be in, and when */
  double said_at;
  double ask_at; /* ct_clock(); 0: nothing is wrong */
  int answers, asking, given_way;
  int awaited; /* a text about this rank; -1: none */
  char text[CT__WATCH_TEXT];
};

/* ---- pump.c: time, and what comes ---- */

#define CT__WATCH_TICK_S 1.0

enum { CT_EXIT_INTERRUPTED = 130 /* as shells have it: 128 + SIGINT */ };

/** Handles what comes within so many seconds, or up to the first thing that does. */
void ct__watch_pump(ct_watch_t *w, double seconds);
/** Counts the seconds in which nothing ended on this rank, since the last time, or from now on. */
void ct__watch_tick_from_now(ct_watch_t *w);
void ct__watch_tick(ct_watch_t *w);
/** Ends this process, and by its connections the others; what it was writing is removed. */
_Noreturn void ct__watch_leave(ct_watch_t *w, int status);

/* ---- ask.c: packets, and what follows from them ---- */

/** One packet of whoever sent it, from \a bytes at \a data; one that is not ours is not heard. */
void ct__watch_take(ct_watch_t *w, const void *data, size_t bytes);
/** Asks one rank for a sign of life. */
void ct__watch_greet(ct_watch_t *w, int rank);
/** Asks all where they are; ends the job if it hangs, if no lower rank is about to. */
void ct__watch_ask(ct_watch_t *w);
/** Ends the job, since that rank has died. */
void ct__watch_report_death(ct_watch_t *w, int rank);
/** Says, on rank 0 and once, that a request to stop was heard. */
void ct__watch_acknowledge(ct_watch_t *w, int64_t request);
/** Tells rank 0 that this one was asked to stop, so that it can say so. */
void ct__watch_pass_on(ct_watch_t *w, int64_t request);
/** Ends the job without a checkpoint, as a second SIGINT asks, with exit status 130. */
_Noreturn void ct__watch_quit(ct_watch_t *w);
/** Tells all ranks that this one was asked to stop. */
void ct__watch_tell_request(ct_watch_t *w);
/** Ends the job, since this rank blocks the start, and somebody was asked to stop. */
void ct__watch_report_blocked(ct_watch_t *w);
/** Leaves it to other ranks, for some seconds, to report a death. */
void ct__watch_be_patient(ct_watch_t *w);
/** Tells all ranks that the job ends. */
void ct__watch_tell_end(ct_watch_t *w);
#endif
