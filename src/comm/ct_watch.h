/** \file ct_watch.h  Ranks that hang or die end the job, with the culprit's name.  Layer 1.
 *
 * Each rank has one thread for it, which makes no MPI calls, so that it works when MPI and NCCL are
 * stuck.  It sleeps; nothing is sent in normal life.
 *
 * A rank that hangs: when nothing has ended on this rank for so many seconds (ct_beat.h), its thread
 * asks the others over UDP where they are.  If nothing has ended on any of them, the late ones are
 * named (those that do not answer, else those that have entered the fewest collective operations),
 * with a stack where it can be had, and every rank ends with exit status 1.  Seconds are counted in
 * the thread's own ticks: a job that is suspended as a whole and resumed is not late.
 *
 * A rank that dies: the ranks hold TCP connections in a ring.  The kernel closes those of a process
 * that is gone, so its neighbours notice, on its node or not. */
#ifndef CT_WATCH_H
#define CT_WATCH_H
#include "comm/ct_topo.h"

typedef struct ct_watch ct_watch_t;

/** Collective.  \a limit_s: seconds in which something must end on some rank; 0: any time is fine, and
 * only ranks that die are noticed.  Called by each rank's main thread, whose stack is shown.  A
 * network that lets no packets through is warned about, and *out is NULL: nothing is watched then.
 * CT_ERR_NOMEM. */
int ct_watch_open(const ct_topo_t *t, double limit_s, ct_watch_t **out);
/** Collective.  Waits until all ranks are here.  NULL is fine. */
void ct_watch_close(ct_watch_t *w);

/** Local.  This rank is about to end with a message of its own: the others end without one.  For
 * ct_panic(). */
void ct__watch_farewell(void);
/** Local.  MPI has failed here, maybe because another rank has died: gives that one's neighbours the
 * time to say so and to end this process.  For ct_panic(). */
void ct__watch_await_cause(void);

#endif
