/** \file ct_stop.h  Requests to stop training, and how all ranks learn of them. Layer 1.
 *
 * Signal handlers only set a flag, so signals may arrive at any time and any number of times. Each
 * rank puts its request into the step status, and the ranks agree on the largest. */
#ifndef CT_STOP_H
#define CT_STOP_H
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/** Why training ends early; later values take precedence. */
typedef enum { CT_STOP_NO, CT_STOP_WALLTIME, CT_STOP_SIGNAL } ct_stop_reason_t;

/** A request to stop. */
typedef struct ct_stop {
  ct_stop_reason_t reason;
  int rank;   /**< the rank that received it */
  int signal; /**< with CT_STOP_SIGNAL: the first signal received */
} ct_stop_t;

/** Local. Installs handlers: from now on SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 only set a flag. A
 * second SIGINT wakes the descriptor of ct_stop_wake(), and a third one kills the process; without
 * that descriptor the second one kills. A second SIGINT counts only if it arrives at least 0.1 s
 * after the first, since terminal and launcher may both forward the same SIGINT. Checkpoints are
 * safe in any case, since they are written to a temporary file and renamed. */
void ct_stop_setup(void);
/** Local. Sets the eventfd that each SIGINT writes to; -1: none. */
void ct_stop_wake(int fd);
/** Local. Returns the number of SIGINTs received. 1: stop; 2: stop at once. */
int ct_stop_interrupts(void);
/** Local, any thread. Returns 1 to the first caller, which shall log that a request was
 * received. */
int ct_stop_first_report(void);
enum { CT_STOP_SIGNALS = 4 };
/** Saved handlers of these signals, while a library may change them. */
typedef struct ct_stop_held {
  struct sigaction act[CT_STOP_SIGNALS];
  sigset_t mask;
} ct_stop_held_t;
/** Local. Enclose a call of a library that installs signal handlers, such as MPI_Init_thread() of
 * MPICH: its SIGUSR1 handler makes MPI_Finalize wait forever for a process manager if the ranks run
 * without one. SIGUSR1 and SIGUSR2 are blocked in between (and forever in the library's threads, so
 * that the caller receives them); ct_stop_release() restores the previous handlers of all four
 * signals. */
void ct_stop_hold(ct_stop_held_t *h);
void ct_stop_release(const ct_stop_held_t *h);
/** Local, Hot. Returns the first signal received, or 0. */
int ct_stop_asked(void);

/** Pure. Encodes a request for ct_step_status_t.stop; 0: no request. Larger values have the reason
 * with higher precedence, then the lower rank. */
int64_t ct_stop_pack(ct_stop_t s);
ct_stop_t ct_stop_unpack(int64_t word);
/** Local, Hot. Returns the larger of \a word and the request from a signal on this rank. */
int64_t ct_stop_with_signal(int64_t word, int rank);

/** Returns "signal", "walltime" or "done": the `reason` reported at the end of a run. */
const char *ct_stop_name(ct_stop_reason_t reason);
/** Pure. Describes the request in \a buf (returned): "rank 2 got SIGUSR1". */
const char *ct_stop_text(ct_stop_t s, char *buf, size_t cap);

#endif
