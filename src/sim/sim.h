/** \file sim.h  Recorded op times.  Layer 1. */
#ifndef CT_SIM_SIM_H
#define CT_SIM_SIM_H
#include "backend/ct_backend.h"

typedef struct ct__sim_times ct__sim_times_t;

/** Local.  Reads the output of `bench step --ops --json`.  CT_ERR_IO; CT_ERR_FORMAT: another kind
 * of file. */
int ct__sim_times_read(const char *path, ct__sim_times_t **out);
/** Frees the times; t may be NULL. */
void ct__sim_times_free(ct__sim_times_t *t);
/** Returns the number of recorded ops; t may be NULL. */
int ct__sim_times_count(const ct__sim_times_t *t);
/** Returns the best rates of the recording machine, in FLOP/s and bytes/s; *flop_rate and
 * *byte_rate stay unchanged if the file has no rates. */
void ct__sim_times_rates(const ct__sim_times_t *t, double *flop_rate, double *byte_rate);
/** Returns the seconds of an op in the passes \a pass, scaled in proportion to the batch; < 0: not
 * recorded.  t may be NULL. */
double ct__sim_times_of(const ct__sim_times_t *t, const ct_op_desc_t *d, int pass);

#endif
