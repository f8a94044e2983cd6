/** \file thread.h  State and functions of the watch thread. Internal to watch. */
#ifndef CT_WATCH_THREAD_H
#define CT_WATCH_THREAD_H
#include <stdatomic.h>

#include "base/ct_heartbeat.h"
#include "watch/ct_watch.h"
#include "watch/proof.h"
#include "watch/watch.h"

/** A TCP connection to a neighbour in the ring. */
typedef struct ct__watch_link {
  int peer;        /**< rank */
  atomic_int fd;   /**< -1: not (or no longer) connected */
  int bye;         /**< the peer has announced that it closes */
  int lost;        /**< closed without announcement; may be reconnected before `agreed` */
  double silent_s; /**< delay before its neighbours report its death, to let other ranks do so */
  double died_at;  /**< ct_clock(); 0: alive */
} ct__watch_link_t;

struct ct_watch {
  const ct_topo_t *t; /* borrowed */
  _Atomic double limit_s;
  ct_sip_key_t key;        /* the job's key: packets not sealed with it are dropped */
  _Atomic uint64_t number; /* number of the last packet sent */
  void (*take)(ct_watch_t *w, const void *packet, size_t bytes); /* ct__watch_take() */
  int rank, ranks;
  ct__watch_card_t *card;           /* owned; of all ranks */
  ct__watch_addresses_t *addresses; /* owned; addresses of all ranks' nodes, until one is chosen */
  ct__watch_ports_t ports;
  ct__watch_state_t *state; /* owned; last reply of each rank */
  ct__watch_heard_t *had;   /* owned; per rank: packets already received */
  ct__watch_net_t net;
  ct__watch_link_t next, prev;
  pthread_t thread;
  int runs; /* 1: the thread is running */
  pid_t main_thread;
  int wake;           /* eventfd: wakes the thread to check `closing` */
  atomic_int closing; /* 1: the thread has been asked to end */
  atomic_int heard;   /* 1: a packet from another rank has arrived (ct__watch_greet()), so
                                the network lets them through */
  atomic_int agreed;  /* all ranks have reached each other: no further connections are
                                accepted */
  atomic_int ending;  /* MPI_Finalize is running */
  atomic_int status;  /* exit status if MPI_Finalize does not return */
  atomic_int shows_start;

  /* used by the thread only */
  ct__watch_door_t door;
  ct_heartbeat_t heartbeat; /* at the last check */
  double ticked_at, idle_s;
  double cpu_s;     /* CPU time of the process */
  double quiet_s;   /* seconds since the process used CPU time or anything completed */
  int64_t request;  /* to stop, from this rank or another (ct_stop_pack()) */
  double asked_s;   /* seconds since the request */
  int told;         /* 1: all ranks have been notified of the request */
  int passed_on;    /* 1: rank 0 has been notified of the request */
  int quits;        /* the immediate end of the job has been logged */
  const char *said; /* last logged activity of the startup */
  double said_at;   /* ct_clock() when `said` was logged */
  double ask_at;    /* ct_clock(); 0: nothing is wrong */
  int answers;      /* ranks that have replied to the question for their state */
  int asking;       /* 1: waiting for these replies */
  int given_way;    /* 1: a lower rank may end the job instead of this one */
  int awaited;      /* rank whose stack trace is awaited; -1: none */
  char text[CT__WATCH_TEXT];
};

/* ---- pump.c: timers and incoming data ---- */

#define CT__WATCH_TICK_S 1.0

enum { CT_EXIT_INTERRUPTED = 130 /* shell convention: 128 + SIGINT */ };

/** Handles incoming data for up to \a seconds, or until the first event. */
void ct__watch_pump(ct_watch_t *w, double seconds);
/** Update idle_s, the seconds in which nothing completed on this rank: ct__watch_tick() adds the
 * time since the last call, ct__watch_tick_from_now() restarts the count. */
void ct__watch_tick_from_now(ct_watch_t *w);
void ct__watch_tick(ct_watch_t *w);
/** Exits this process, and thereby, through the closed connections, the others; removes files being
 * written. */
_Noreturn void ct__watch_leave(ct_watch_t *w, int status);

/* ---- ask.c: packets and reactions to them ---- */

/** Handles one received packet of \a bytes bytes; drops those that are not from this job. */
void ct__watch_take(ct_watch_t *w, const void *data, size_t bytes);
/** Pings one rank. */
void ct__watch_greet(ct_watch_t *w, int rank);
/** Asks all ranks for their state. Ends the job if it hangs, unless a lower rank is about to do
 * so. */
void ct__watch_ask(ct_watch_t *w);
/** Ends the job because \a rank has died. */
void ct__watch_report_death(ct_watch_t *w, int rank);
/** Logs, on rank 0 and once, that a request to stop was received. */
void ct__watch_acknowledge(ct_watch_t *w, int64_t request);
/** Notifies rank 0 that this rank was asked to stop, so that rank 0 can log it. */
void ct__watch_pass_on(ct_watch_t *w, int64_t request);
/** Ends the job without a checkpoint, as a second SIGINT demands, with exit status 130. */
_Noreturn void ct__watch_quit(ct_watch_t *w);
/** Notifies all ranks that this one was asked to stop. */
void ct__watch_log_request(ct_watch_t *w);
/** Ends the job because this rank blocks the start while a stop is requested. */
void ct__watch_report_blocked(ct_watch_t *w);
/** Waits some seconds for other ranks to report a death. */
void ct__watch_be_patient(ct_watch_t *w);
/** Notifies all ranks that the job ends. */
void ct__watch_log_end(ct_watch_t *w);
#endif
