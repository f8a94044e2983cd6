/** \file sim.h  Recorded op times.  Layer 1. */
#ifndef CT_SIM_SIM_H
#define CT_SIM_SIM_H
#include "backend/ct_backend.h"

typedef struct ct__sim_times ct__sim_times_t;

/** Local.  Reads the output of `bench step --ops --json`.  CT_ERR_IO; CT_ERR_FORMAT: another kind
 * of file. */
int ct__sim_times_read(const char *path, ct__sim_times_t **out);
/** NULL is allowed. */
void ct__sim_times_free(ct__sim_times_t *t);
int ct__sim_times_count(const ct__sim_times_t *t);
/** The best rates of the recording machine, in FLOP/s and bytes/s; unchanged if the file has
 * none. */
void ct__sim_times_rates(const ct__sim_times_t *t, double *flop_rate, double *byte_rate);
/** Seconds of an op in these passes, scaled in proportion to the batch; < 0: not recorded.  t may
 * be NULL. */
double ct__sim_times_of(const ct__sim_times_t *t, const ct_op_desc_t *d, int pass);

#endif
