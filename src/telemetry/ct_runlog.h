/** \file ct_runlog.h  The state and curves of a run, read from its metrics.jsonl while it runs or
 * later.  Layer 4.  All functions are local.
 *
 * A session is one launch of the program for this run; a run that was resumed has several.
 * If a step was trained more than once because the run resumed from an earlier checkpoint, its last
 * line counts. */
#ifndef CT_RUNLOG_H
#define CT_RUNLOG_H
#include <jansson.h>
#include <stdint.h>

#include "host/ct_lock.h"
#include "base/ct_text.h"

/** One quantity over the training steps, in ascending order of steps. */
typedef struct ct_curve {
  char name[48]; /**< "loss", "lr", "samples_per_s"; "eval.loss", "eval.top1"; for a set of
                      eval.sets "eval.noisy.top1"; "epoch.loss" */
  int64_t *step; /**< owned */
  double *value; /**< owned; no NaN */
  double *at_s;  /**< owned; seconds of training, summed over all sessions, without the time
                      between two sessions */
  int64_t n, step_cap, value_cap, at_cap;
} ct_curve_t;

enum { CT_RUNLOG_CURVES = 128 };

typedef struct ct_runlog {
  char dir[CT_PATH_MAX];
  /* from the latest session */
  int64_t run; /**< number of the session, from 1; 0: no line has been read yet */
  char name[128], device[128], began[40];
  int64_t ranks, nodes, samples, batch;
  /* from the latest lines */
  int64_t step, epoch;
  double elapsed_s;        /**< duration of the latest session, up to its latest line */
  double before_s;         /**< duration of all earlier sessions together */
  double waits_data;       /**< fraction of the latest logged step that rank 0 waited for data */
  double waits_messages;   /**< fraction of that step that rank 0 waited for communication */
  char checkpoint[128];    /**< file name of the latest durable checkpoint; "": none */
  char best[128];          /**< file name of the best checkpoint so far; "": none */
  char end[32];            /**< reason of the `end` line; "": not read yet */
  char error[256];         /**< error of the `end` line; "": none */
  ct_lock_holder_t holder; /**< holder of the run's lock at the latest call of ct_runlog_more() */
  double changed;          /**< modification time of metrics.jsonl, in seconds since 1970 */
  char straggler[256];     /**< the latest slow rank that was logged; "": none */
  json_t *breakdown;       /**< owned; the latest time breakdown: of the whole session if it has
                                ended; or NULL */
  /* from config.yaml; 0: not set in it */
  int64_t epochs, steps;
  ct_curve_t curve[CT_RUNLOG_CURVES];
  int curves;
  /* position of the reader */
  int64_t offset; /**< byte offset after the last whole line that was read */
  uint64_t inode; /**< of the file that was read */
  int64_t line;   /**< number of lines read, for messages */
} ct_runlog_t;

/** Stores the directory; reads nothing yet. */
int ct_runlog_open(const char *dir, ct_runlog_t *out);
void ct_runlog_close(ct_runlog_t *r);
/** Reads the lines that were added since the last call; *lines is set to their number.  An
 * incomplete last line is left for the next call.  A file that was replaced, or is shorter than
 * before, is read again from its beginning.
 * CT_ERR_IO: metrics.jsonl is missing or unreadable.  CT_ERR_FORMAT names the line. */
int ct_runlog_more(ct_runlog_t *r, int64_t *lines);
/** Returns a curve by its name; NULL: the run does not have this curve. */
const ct_curve_t *ct_runlog_curve(const ct_runlog_t *r, const char *name);
/** Returns the number of steps of the whole run; 0 if config.yaml does not determine it. */
int64_t ct_runlog_total(const ct_runlog_t *r);

enum { CT_RUNLOG_SILENT_S = 60 }; /**< a run without new lines for so long is reported as silent */
/** Returns 1 if the process of the run ended without writing an `end` line. */
int ct_runlog_is_killed(const ct_runlog_t *r);
/** Returns 1 if nothing shows that the run continues: the last line is older than
 * CT_RUNLOG_SILENT_S at \a now (seconds since 1970), and the lock of the run cannot be checked from
 * this node. */
int ct_runlog_is_lost(const ct_runlog_t *r, double now);
/** Writes the state into buf, which is returned: "done", "running", "killed after step 40", "no
 * sign of life since 2026-01-31T23:59:59Z".  \a now: in seconds since 1970. */
const char *ct_runlog_state(const ct_runlog_t *r, double now, char *buf, size_t cap);

/** Appends the progress of a run for a terminal of \a columns.  \a utf8: 1 allows characters
 * beyond ASCII.  \a now: in seconds since 1970. */
int ct_runlog_text(const ct_runlog_t *r, int columns, int utf8, double now, ct_str_t *out);

#endif
