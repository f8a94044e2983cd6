/** \file ct_mllog.h  mllog.log: what MLPerf's tools read of a run.  Layer 4.
 *
 * A line is `:::MLLOG ` and a JSON object, as mlperf_logging writes and its compliance checker
 * reads them (github.com/mlcommons/logging).  Rank 0 alone; all functions are local, and accept
 * NULL: then nothing is written.  A line that cannot be written is left out, with a warning when
 * that begins. */
#ifndef CT_MLLOG_H
#define CT_MLLOG_H
#include <jansson.h>
#include <stdint.h>

typedef struct ct_mllog ct_mllog_t;

/** Begins dir/mllog.log anew: a result is of one start of a run. */
int ct_mllog_open(const char *dir, ct_mllog_t **out);
void ct_mllog_close(ct_mllog_t *m);

/** A fact.  Takes \a value over. */
void ct_mllog_fact(ct_mllog_t *m, const char *key, json_t *value);
/** The begin or the end of something, such as "init"; \a ago: seconds since then. */
void ct_mllog_begin(ct_mllog_t *m, const char *key, double ago);
void ct_mllog_end(ct_mllog_t *m, const char *key);
/** The same of an epoch, counted from 1: "epoch", "eval". */
void ct_mllog_begin_epoch(ct_mllog_t *m, const char *key, int64_t epoch);
void ct_mllog_end_epoch(ct_mllog_t *m, const char *key, int64_t epoch);
/** What an evaluation found: "eval_accuracy", "eval_error". */
void ct_mllog_score(ct_mllog_t *m, const char *key, double value, int64_t epoch);
/** The run is over; status: "success" or "aborted". */
void ct_mllog_stop(ct_mllog_t *m, const char *status);

#endif
