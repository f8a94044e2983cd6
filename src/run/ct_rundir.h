/** \file ct_rundir.h  The run directory, held by one run at a time.  Layer 4.
 *
 * Rank 0 alone calls these functions; all are local.  `lock` in the directory keeps a second run
 * away (host/ct_lock.h).  Commands that only read do not take it. */
#ifndef CT_RUNDIR_H
#define CT_RUNDIR_H
#include <stddef.h>

#include "job/ct_job.h"

typedef struct ct_rundir ct_rundir_t;

/** Makes \a dir and locks it, for a run of \a job.  CT_ERR_IO: another run holds it, and which. */
int ct_rundir_open(const char *dir, const ct_job_t *job, ct_rundir_t **out);
/** Writes config.yaml; the text is borrowed until the end. */
int ct_rundir_config(ct_rundir_t *r, const char *text, size_t bytes);
/** A cleaner may have removed the directory while the run goes on: then it, its lock and
 * config.yaml are made anew, with a warning, as far as that is possible.  NULL is fine.  CT_ERR_IO:
 * another run has taken the directory over, so that this one must not write any more. */
int ct_rundir_check(ct_rundir_t *r);
/** Gives the lock back; NULL is fine. */
void ct_rundir_close(ct_rundir_t *r);

#endif
