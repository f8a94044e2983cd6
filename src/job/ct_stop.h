/** \file ct_stop.h  Being asked to stop: by whom, and how all ranks hear of it.  Layer 1.
 *
 * A signal sets a flag; nothing is done in the handler, so that it may come at any moment and any
 * number of times.  Each rank puts its request into the step word, of which the ranks agree on the
 * largest. */
#ifndef CT_STOP_H
#define CT_STOP_H
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/** Why training ends early.  The later outranks the earlier. */
typedef enum { CT_STOP_NO, CT_STOP_WALLTIME, CT_STOP_SIGNAL } ct_stop_reason_t;

/** A request. */
typedef struct ct_stop {
  ct_stop_reason_t reason;
  int rank;   /**< who was asked */
  int signal; /**< with CT_STOP_SIGNAL: the first one that came */
} ct_stop_t;

/** Local.  From now on SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 only set a flag.  A second SIGINT, at
 * least a tenth of a second behind the first (a terminal and a launcher may both hand on the same
 * one), is for who was named by ct_stop_wake(), and a third one kills; where nobody was named, the
 * second does. Checkpoints stand it in any case: they are written beside and renamed. */
void ct_stop_setup(void);
/** Local.  An eventfd that each SIGINT is to write to; -1: none. */
void ct_stop_wake(int fd);
/** Local.  How often SIGINT came: 0, 1: stop, 2: at once. */
int ct_stop_interrupts(void);
/** Local, any thread.  1 for the first who calls it: it is to say that a request was heard. */
int ct_stop_tell(void);
enum { CT_STOP_SIGNALS = 4 };
/** What these signals do, while a library may change it. */
typedef struct ct_stop_held {
  struct sigaction act[CT_STOP_SIGNALS];
  sigset_t mask;
} ct_stop_held_t;
/** Local.  Around a call of a library that puts handlers of its own in place, as MPI_Init_thread()
 * of MPICH does: its handler of SIGUSR1 makes MPI_Finalize look for a process manager, and wait for
 * ever where there is none. SIGUSR1 and SIGUSR2 wait in between (in the library's threads for ever:
 * they are for the caller's); then all four do again what they did before, handled or not. */
void ct_stop_hold(ct_stop_held_t *h);
void ct_stop_release(const ct_stop_held_t *h);
/** Local, Hot.  The first signal that came, or 0. */
int ct_stop_asked(void);

/** Pure.  A request as a number for ct_step_word_t.stop: 0 if nothing is asked for; the larger of
 * two is of the graver reason, then of the lower rank. */
int64_t ct_stop_pack(ct_stop_t s);
ct_stop_t ct_stop_unpack(int64_t word);
/** Local, Hot.  The larger of \a word and what this rank was asked by a signal. */
int64_t ct_stop_with_signal(int64_t word, int rank);

/** "signal", "walltime" or "done": the `reason` of a run's end. */
const char *ct_stop_name(ct_stop_reason_t reason);
/** Pure.  Who was asked by what, into \a buf (returned): "rank 2 got SIGUSR1". */
const char *ct_stop_text(ct_stop_t s, char *buf, size_t cap);

#endif
