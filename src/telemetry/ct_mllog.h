/** \file ct_mllog.h  mllog.log: the log of a run in MLPerf's format.  Layer 4.
 *
 * A line is `:::MLLOG ` and a JSON object, in the format of mlperf_logging and its compliance
 * checker (github.com/mlcommons/logging).  Rank 0 only.  All functions are local, and do nothing
 * for NULL. A line that cannot be written is dropped; the first failure logs a warning. */
#ifndef CT_MLLOG_H
#define CT_MLLOG_H
#include <jansson.h>
#include <stdint.h>

typedef struct ct_mllog ct_mllog_t;

/** Creates or truncates dir/mllog.log: an MLPerf result covers one launch of the program. */
int ct_mllog_open(const char *dir, ct_mllog_t **out);
void ct_mllog_close(ct_mllog_t *m);

/** Writes a point in time with a value.  Takes ownership of \a value. */
void ct_mllog_fact(ct_mllog_t *m, const char *key, json_t *value);
/** Write the beginning or the end of an interval, such as "init"; \a ago: seconds since it began.
 */
void ct_mllog_begin(ct_mllog_t *m, const char *key, double ago);
void ct_mllog_end(ct_mllog_t *m, const char *key);
/** Write the beginning or the end of an interval with the number of its epoch, counted from 1:
 * "epoch", "eval". */
void ct_mllog_begin_epoch(ct_mllog_t *m, const char *key, int64_t epoch);
void ct_mllog_end_epoch(ct_mllog_t *m, const char *key, int64_t epoch);
/** Writes the result of an evaluation: "eval_accuracy", "eval_error". */
void ct_mllog_score(ct_mllog_t *m, const char *key, double value, int64_t epoch);
/** Writes the end of the run; status: "success" or "aborted". */
void ct_mllog_stop(ct_mllog_t *m, const char *status);

#endif
