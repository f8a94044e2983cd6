/** \file ct_rundir.h  The run directory, locked by one run at a time.  Layer 4.
 *
 * Only rank 0 calls these functions; all are local.  The file `lock` in the directory excludes a
 * second run (host/ct_lock.h).  Commands that only read do not take the lock. */
#ifndef CT_RUNDIR_H
#define CT_RUNDIR_H
#include <stddef.h>

#include "job/ct_job.h"

typedef struct ct_rundir ct_rundir_t;

/** Creates \a dir and locks it for a run of \a job.  CT_ERR_IO: another run holds the lock; names
 * it. */
int ct_rundir_open(const char *dir, const ct_job_t *job, ct_rundir_t **out);
/** Writes config.yaml; borrows the text until ct_rundir_close(). */
int ct_rundir_config(ct_rundir_t *r, const char *text, size_t bytes);
/** Recreates the directory, its lock and config.yaml if a file system cleaner has removed them, as
 * far as possible and with a warning.  NULL is fine.  CT_ERR_IO: another run has taken the
 * directory over, and this one must not write to it any more. */
int ct_rundir_check(ct_rundir_t *r);
/** Releases the lock; NULL is fine. */
void ct_rundir_close(ct_rundir_t *r);

#endif
