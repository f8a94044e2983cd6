/** \file train_mllog.h  What MLPerf's log says of a run before its first step.  Layer 5. */
#ifndef CT_TRAIN_MLLOG_H
#define CT_TRAIN_MLLOG_H
#include "setup/ct_setup.h"
#include "telemetry/ct_mllog.h"

/** Local, rank 0.  Opens the log, if `log.mllog` wants one, and writes the facts; else *out stays.
 */
int ct_train_mllog(const ct_setup_t *s, const ct_sampler_t *order, ct_mllog_t **out);

#endif
