/** \file ct_job_energy.h  Energy of this job step, from the batch system's accounting. Layer 1. */
#ifndef CT_JOB_ENERGY_H
#define CT_JOB_ENERGY_H
#include "job/ct_job.h"

/** Local, never fails. Returns the joules that the job step has used so far; < 0 if the batch
 * system's command for this (ct_job_system_t.energy) is unknown or prints nothing. Runs the command
 * and waits for it up to five seconds. */
double ct_job_energy(const ct_job_t *job);

#endif
