/** \file ct_meter.h  The energy that all nodes of a run use, as far as they tell it.  Layer 4.
 *
 * What is counted, the first that there is:
 *  - whole nodes (HPE Cray's pm_counters), GPUs and all;
 *  - processors and memory (RAPL; hwmon on Grace), and each GPU that a rank computes on (NVML),
 *    once;
 *  - those GPUs alone;
 *  - what the batch system's accounting says of this job step (job/ct_job_energy.h), if asked for.
 *
 * All ranks that use it call ct_meter_open(), ct_meter_look() now and then, ct_meter_read(). */
#ifndef CT_METER_H
#define CT_METER_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

typedef struct ct_meter ct_meter_t;

typedef struct ct_meter_sum {
  double joule;   /**< of all nodes; < 0: not known */
  char from[160]; /**< who counted what; else why it is not known */
} ct_meter_sum_t;

/** Collective.  Begins to count.  \a job: the accounting is asked if nobody else tells, which takes
 * rank 0 the time of a program's start, and is worth it for minutes and hours. */
int ct_meter_open(const ct_topo_t *topo, const ct_backend_t *be, ct_dev_t *dev, int job,
                  ct_meter_t **out);
/** Local, Hot.  Counters begin anew at some hundred kJ, minutes apart: each half a minute they are
 * read, and power meters each second.  \a now: ct_clock(). */
void ct_meter_look(ct_meter_t *m, double now);
/** Collective.  Since ct_meter_open(); *out is of rank 0. */
int ct_meter_read(ct_meter_t *m, ct_meter_sum_t *out);
/** NULL is fine. */
void ct_meter_close(ct_meter_t *m);

#endif
