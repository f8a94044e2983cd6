/** \file ct_rundir.h  The run directory, locked by one run at a time.  Layer 4.
 *
 * Only rank 0 calls these functions; all are local.  The file `lock` in the directory excludes a
 * second run (host/ct_lock.h).  Commands that only read do not take the lock. */
#ifndef CT_RUNDIR_H
#define CT_RUNDIR_H
#include <stddef.h>

#include "job/ct_job.h"

typedef struct ct_rundir ct_rundir_t;

/** Creates \a dir and locks it for a run of \a job.  CT_ERR_IO: another run holds the lock; the
 * message names that run. */
int ct_rundir_open(const char *dir, const ct_job_t *job, ct_rundir_t **out);
/** Writes config.yaml; borrows the text until ct_rundir_close(). */
int ct_rundir_config(ct_rundir_t *r, const char *text, size_t bytes);
/** Recreates the directory, its lock and config.yaml with a warning, as far as possible, if a file
 * system cleaner has removed them.  \a r may be NULL.  CT_ERR_IO: another run has taken the
 * directory over, and this run must not write to it any more. */
int ct_rundir_check(ct_rundir_t *r);
/** Releases the lock; \a r may be NULL. */
void ct_rundir_close(ct_rundir_t *r);

#endif
