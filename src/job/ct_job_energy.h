/** \file ct_job_energy.h  The energy of this job step, by the batch system's accounting.  Layer 1.
 */
#ifndef CT_JOB_ENERGY_H
#define CT_JOB_ENERGY_H
#include "job/ct_job.h"

/** Local, never fails.  Joules so far; < 0: the system has no such command, or it says nothing.
 * Starts that command (ct_job_system_t.energy) and waits for it, five seconds at most. */
double ct_job_energy(const ct_job_t *job);

#endif
