/** \file ct_meter.h  The energy that all nodes of a run use, where it can be measured.  Layer 4.
 *
 * The first available source of this list is used:
 *  - counters of whole nodes, GPUs included (HPE Cray's pm_counters);
 *  - processors and memory (RAPL; hwmon on Grace) plus each GPU in use (NVML), counted once;
 *  - each GPU in use alone (NVML);
 *  - the batch system's accounting of this job step (job/ct_job_energy.h), if requested.
 *
 * All ranks call ct_meter_open(), ct_meter_sample() regularly, and ct_meter_read(). */
#ifndef CT_METER_H
#define CT_METER_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

typedef struct ct_meter ct_meter_t;

typedef struct ct_meter_sum {
  double joule;   /**< energy of all nodes; < 0: unknown */
  char from[160]; /**< source of the measurement, or why the energy is unknown */
} ct_meter_sum_t;

/** Collective.  Begins to measure.  \a job: 1: use the batch system's accounting if no other source
 * is available; this runs a program on rank 0, so it is meant for runs of minutes and hours.
 * CT_ERR_NOMEM. */
int ct_meter_open(const ct_topo_t *topo, const ct_backend_t *be, ct_dev_t *dev, int job,
                  ct_meter_t **out);
/** Local, Hot.  Reads the counters every 30 s, since they wrap within minutes, and power meters
 * every second.  \a now: ct_clock(). */
void ct_meter_sample(ct_meter_t *m, double now);
/** Collective.  Reads the energy since ct_meter_open(); *out is valid on rank 0. */
int ct_meter_read(ct_meter_t *m, ct_meter_sum_t *out);
/** Frees the meter; \a m may be NULL. */
void ct_meter_close(ct_meter_t *m);

#endif
