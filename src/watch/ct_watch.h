/** \file ct_watch.h  The watch: ends the job when a rank hangs or dies, and names that rank.
 * Layer 1.
 *
 * Each rank has one watch thread. It makes no MPI calls, so it works even if MPI or NCCL is stuck.
 * It sleeps, and sends nothing while all is well.
 *
 * Hangs: if nothing has completed on this rank for a time limit (ct_heartbeat.h), its thread asks
 * the other ranks over UDP for their state. If nothing has completed on any rank, it names the late
 * ones (those that do not reply, else those that have entered the fewest collective operations),
 * prints a stack trace where possible, and every rank ends with exit status 1. The limit is counted
 * in the thread's own ticks, so that suspending and resuming the whole job does not trigger it.
 *
 * Blocked startup, before any rank has completed a step: a signal that asks one rank to stop
 * (ct_stop.h) is forwarded to all. If a rank is then outside of collective calls, makes no progress
 * and uses no CPU time for 15 s, it ends the job, naming itself and the file it waits for
 * (ct_heartbeat_file()). A startup that makes progress continues, and stops after the first step.
 *
 * SIGINT (ct_stop.h) is acknowledged at once by rank 0, whichever rank received it. A second SIGINT
 * ends the job without a checkpoint: files being written are removed (ct_temporary.h), and each
 * rank ends with exit status 130.
 *
 * Deaths: the ranks hold TCP connections in a ring. The kernel closes the connections of a dead
 * process, so its neighbours notice, on the same node or not. */
#ifndef CT_WATCH_H
#define CT_WATCH_H
#include "comm/ct_topo.h"

typedef struct ct_watch ct_watch_t;

/** Collective, to be called first. Must be called by each rank's main thread, whose stack is
 * traced. The limit is 600 s until ct_watch_limit() changes it. If the network blocks packets, it
 * logs a warning and sets *out to NULL: nothing is watched. CT_ERR_NOMEM. */
int ct_watch_open(const ct_topo_t *t, ct_watch_t **out);
/** Local. From now until the first step, rank 0 logs its current activity if that takes more than a
 * few seconds. */
void ct_watch_show_start(void);
/** Local. Sets the seconds within which something must complete on some rank; 0: no limit, and only
 * dying ranks are detected. */
void ct_watch_limit(double limit_s);
/** Collective. Waits until all ranks have called it; after that ranks may exit. Call MPI_Finalize
 * next: if it takes longer than the limit (or than a minute after a signal), the process exits with
 * \a status without it. \a w may be NULL. */
void ct_watch_end(ct_watch_t *w, int status);
/** Local. Frees \a w, which may be NULL; call it after MPI_Finalize. */
void ct_watch_close(ct_watch_t *w);

#endif
