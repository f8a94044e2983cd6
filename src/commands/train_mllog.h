/** \file train_mllog.h  The entries of the MLPerf log before the first step.  Layer 5. */
#ifndef CT_TRAIN_MLLOG_H
#define CT_TRAIN_MLLOG_H
#include "setup/ct_setup.h"
#include "telemetry/ct_mllog.h"

/** Local, rank 0.  If `log.mllog` is set, opens the log in *out and writes the facts of the run;
 * otherwise leaves *out unchanged. */
int ct_train_mllog(const ct_setup_t *s, const ct_sampler_t *order, ct_mllog_t **out);

#endif
