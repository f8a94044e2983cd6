/** \file number.h  Numbers in environment variables. */
#ifndef CT_JOB_NUMBER_H
#define CT_JOB_NUMBER_H
#include <stdint.h>

#include "job/ct_job.h"

/** Local. Returns the value of the first of two variables that holds a non-negative number; -1:
 * neither does. */
int64_t ct__job_number(ct_env_t env, const char *const name[2]);

#endif
