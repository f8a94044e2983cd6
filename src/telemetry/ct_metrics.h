/** \file ct_metrics.h  metrics.jsonl: one JSON object per line, units in the key names.  Layer 4.
 *
 * Rank 0 only.  Each line is written by a single write(); numbers have up to 17 significant digits.
 * If the file is removed or replaced while it is open, the next line reopens it by name and logs a
 * warning. */
#ifndef CT_METRICS_H
#define CT_METRICS_H
#include <jansson.h>
#include <stdint.h>

struct ct_events;
typedef struct ct_metrics ct_metrics_t;

/** Local.  Opens dir/metrics.jsonl to append.  CT_ERR_IO, CT_ERR_NOMEM. */
int ct_metrics_open(const char *dir, ct_metrics_t **out);
/** Begins an object {"event": …, "run": …, "time": …, "elapsed_s": …}: `run` is ct_metrics_run(),
 * `time` the time in UTC, and `elapsed_s` the seconds since the program was started.  The following
 * calls add fields, and ct_metrics_end() writes the line.  ct_metrics_end() and ct_metrics_close()
 * return the first error: CT_ERR_IO.  All functions do nothing for NULL (ranks without metrics). */
void ct_metrics_begin(ct_metrics_t *m, const char *event);
void ct_metrics_int(ct_metrics_t *m, const char *name, int64_t v);
void ct_metrics_num(ct_metrics_t *m, const char *name, double v);
void ct_metrics_text(ct_metrics_t *m, const char *name, const char *v);
/** Takes ownership of \a v (NULL: out of memory).  \a name NULL: the members of the object \a v
 * become fields of the line. */
void ct_metrics_json(ct_metrics_t *m, const char *name, json_t *v);
int ct_metrics_end(ct_metrics_t *m);
/** Makes later write errors harmless: a line that cannot be written is dropped instead of returning
 * an error, and the first failure logs a warning. */
void ct_metrics_forgive(ct_metrics_t *m);
/** Returns the number of this session of the run directory, counted from 1.  A session is one
 * launch of the program for this run. */
int64_t ct_metrics_run(const ct_metrics_t *m);
/** Also passes each later line to \a events (borrowed); NULL: no longer. */
void ct_metrics_follow(ct_metrics_t *m, struct ct_events *events);
int ct_metrics_close(ct_metrics_t *m);

#endif
