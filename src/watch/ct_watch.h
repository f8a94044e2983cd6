/** \file ct_watch.h  Ranks that hang or die end the job, with the culprit's name.  Layer 1.
 *
 * Each rank has one thread for it, which makes no MPI calls, so that it works when MPI and NCCL are
 * stuck.  It sleeps; nothing is sent in normal life.
 *
 * A rank that hangs: when nothing has ended on this rank for so many seconds (ct_heartbeat.h), its
 * thread asks the others over UDP where they are.  If nothing has ended on any of them, the late
 * ones are named (those that do not answer, else those that have entered the fewest collective
 * operations), with a stack where it can be had, and every rank ends with exit status 1.  Seconds
 * are counted in the thread's own ticks: a job that is suspended as a whole and resumed is not
 * late.
 *
 * A start that blocks, before any rank has done a step: a signal that asks one rank to stop
 * (ct_stop.h) is heard by all, and a rank that is in work of its own, without progress and without
 * using a core for 15 s from then on, ends the job with its name and that of the file
 * (ct_beat_file()).  A start that goes on is not touched: it stops after the first step.
 *
 * A SIGINT (ct_stop.h) is acknowledged at once, by rank 0, whichever rank it reached.  A second
 * one ends the job without a checkpoint: files that are being written are removed
 * (ct_temporary.h), and each rank ends with exit status 130.
 *
 * A rank that dies: the ranks hold TCP connections in a ring.  The kernel closes those of a process
 * that is gone, so its neighbours notice, on its node or not. */
#ifndef CT_WATCH_H
#define CT_WATCH_H
#include "comm/ct_topo.h"

typedef struct ct_watch ct_watch_t;

/** Collective, first thing of all: with 600 s until ct_watch_limit() says otherwise.  Called by
 * each rank's main thread, whose stack is shown.  A network that lets no packets through is warned
 * about, and *out is NULL: nothing is watched then.  CT_ERR_NOMEM. */
int ct_watch_open(const ct_topo_t *t, ct_watch_t **out);
/** Local.  Until the first step rank 0 says what it is in, when that takes more than a few
 * seconds. */
void ct_watch_show_start(void);
/** Local.  Seconds in which something must end on some rank; 0: any time is fine, and only ranks
 * that die are noticed. */
void ct_watch_limit(double limit_s);
/** Collective.  Waits until all ranks are here; from now on each may leave.  MPI_Finalize is to
 * follow: if it takes longer than the limit, or than a minute after a signal, the process ends
 * without it, with exit status \a status.  NULL is fine. */
void ct_watch_end(ct_watch_t *w, int status);
/** Local, after MPI_Finalize.  NULL is fine. */
void ct_watch_close(ct_watch_t *w);

#endif
