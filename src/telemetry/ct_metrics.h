/** \file ct_metrics.h  metrics.jsonl: one JSON object a line, units in the names.  Layer 4.
 *
 * Rank 0 only.  A line is one write; numbers have 17 significant digits where it matters.  If the
 * file is removed or replaced while it is open, the next line goes to what its name means then,
 * with a warning; nothing is written to a file that has no name. */
#ifndef CT_METRICS_H
#define CT_METRICS_H
#include <jansson.h>
#include <stdint.h>

struct ct_events;
typedef struct ct_metrics ct_metrics_t;

/** Local.  Appends to dir/metrics.jsonl. */
int ct_metrics_open(const char *dir, ct_metrics_t **out);
/** Begins an object {"event": …, "run": …, "time": …, "elapsed_s": …}: which start of the
 * directory it is, when by UTC, and how long after the program was started.  Then fields; then end
 * writes the line.  Errors are kept and returned by end and close: CT_ERR_IO.  All accept NULL
 * (ranks without metrics). */
void ct_metrics_begin(ct_metrics_t *m, const char *event);
void ct_metrics_int(ct_metrics_t *m, const char *name, int64_t v);
void ct_metrics_num(ct_metrics_t *m, const char *name, double v);
void ct_metrics_text(ct_metrics_t *m, const char *name, const char *v);
/** Takes \a v over (NULL: there was no memory for it).  \a name NULL: the members of an object
 * become fields of the line. */
void ct_metrics_json(ct_metrics_t *m, const char *name, json_t *v);
int ct_metrics_end(ct_metrics_t *m);
/** From now on a line that cannot be written is left out, with a warning when that begins, and is
 * no error. */
void ct_metrics_forgive(ct_metrics_t *m);
/** Which start of this directory it is, from 1. */
int64_t ct_metrics_run(const ct_metrics_t *m);
/** Each line from now on is told to \a events, too (borrowed; NULL: no more). */
void ct_metrics_follow(ct_metrics_t *m, struct ct_events *events);
int ct_metrics_close(ct_metrics_t *m);

#endif
