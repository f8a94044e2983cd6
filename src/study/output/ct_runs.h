/** \file ct_runs.h  Training runs compared with each other: as an HTML page, as text, as CSV and as
 * JSON.  Layer 4.
 *
 * A run is read from its directory: metrics.jsonl, and if they exist config.yaml, summary.json and
 * trace.json.  The run may still be training.  All functions are local. */
#ifndef CT_RUNS_H
#define CT_RUNS_H
#include "conf/ct_yaml.h"
#include "telemetry/ct_runlog.h"

typedef struct ct_run {
  ct_runlog_t log;
  char state[80]; /**< ct_runlog_state() at the time of ct_run_open() */
  char
      label[128]; /**< name of the run; if several runs have the same name, that of its directory */
  ct_yaml_t *config; /**< owned; NULL: no config.yaml */
  json_t *summary;   /**< owned; NULL: the run has not ended */
  json_t *trace;     /**< owned; NULL: no steps were traced */
} ct_run_t;

/** Runs, and the score by which they are compared. */
typedef struct ct_runs {
  const ct_run_t *run; /**< borrowed */
  int n;
  char metric[48];   /**< name of a curve that all runs have */
  int less;          /**< 1: smaller values are better */
  double target;     /**< value of the metric; reports give the time until it is reached */
  int target_chosen; /**< 1: the user did not give a target; it is a value that all runs have
                          reached */
} ct_runs_t;

/** Reads the run in a directory.  CT_ERR_IO and CT_ERR_FORMAT name file and line; CT_ERR_FORMAT
 * also if no run has begun there. */
int ct_run_open(const char *dir, ct_run_t *out);
void ct_run_close(ct_run_t *r);

/** Sets the labels of n runs, and chooses the score and target by which they are compared.
 * \a target: "top1=0.9", an evaluation score and a value; NULL: the score of the first run's
 * checkpoint.best, else top1, mae or loss, and the best value that all runs have reached.
 * CT_ERR_USAGE: \a target does not have this form, or a run does not have this score. */
int ct_runs_compare(ct_run_t *run, int n, const char *target, ct_runs_t *out);

/** Returns the index of the best value in the curve c->metric; -1: the run does not have this
 * curve, or it is empty. */
int64_t ct_run_best(const ct_runs_t *c, const ct_run_t *r);
/** Returns the seconds of training until the target was reached; NAN: it was not reached. */
double ct_run_time_to_target(const ct_runs_t *c, const ct_run_t *r);

/** Appends one HTML page without external resources; its charts are inline SVG. */
int ct_runs_html(const ct_runs_t *c, ct_str_t *out);
/** Appends a table for a terminal. */
int ct_runs_text(const ct_runs_t *c, ct_str_t *out);
/** Appends CSV: one line per point of each curve. */
int ct_runs_csv(const ct_runs_t *c, ct_str_t *out);
/** Returns a new list with one object per run.  NULL: out of memory. */
json_t *ct_runs_json(const ct_runs_t *c);

#endif
