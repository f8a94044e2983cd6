/** \file number.h  Numbers in the environment. */
#ifndef CT_JOB_NUMBER_H
#define CT_JOB_NUMBER_H
#include <stdint.h>

#include "job/ct_job.h"

/** Local.  The value of the first of two variables that is a number, not below 0; -1: neither is.
 */
int64_t ct__job_number(ct_env_t env, const char *const name[2]);

#endif
