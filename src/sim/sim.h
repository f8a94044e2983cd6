/** \file sim.h  Times of recorded ops.  Layer 1. */
#ifndef CT_SIM_SIM_H
#define CT_SIM_SIM_H
#include "backend/ct_backend.h"

typedef struct ct__sim_times ct__sim_times_t;

/** Local.  Reads what `bench step --ops --json` has printed.  CT_ERR_IO; CT_ERR_FORMAT: not such a
 * file. */
int ct__sim_times_read(const char *path, ct__sim_times_t **out);
/** NULL is fine. */
void ct__sim_times_free(ct__sim_times_t *t);
int ct__sim_times_count(const ct__sim_times_t *t);
/** What the recording machine did at best, if the file says it; else the numbers stay. */
void ct__sim_times_rates(const ct__sim_times_t *t, double *flop_rate, double *byte_rate);
/** Seconds of an op in these passes, if need be in proportion to the batch; < 0: not recorded.
 * t NULL: nothing is. */
double ct__sim_times_of(const ct__sim_times_t *t, const ct_op_desc_t *d, int pass);

#endif
