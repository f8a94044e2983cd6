/** \file ct_runs.h  Runs beside each other: as a page, as a table, as csv and JSON.  Layer 4.
 *
 * A run is read from its directory: metrics.jsonl, and as far as they are there config.yaml,
 * summary.json and trace.json.  It may go on meanwhile.  All functions are local. */
#ifndef CT_RUNS_H
#define CT_RUNS_H
#include "conf/ct_yaml.h"
#include "telemetry/ct_runlog.h"

typedef struct ct_run {
  ct_runlog_t log;
  char state[80];    /**< ct_runlog_state() when it was opened */
  char label[128];   /**< its name; of several with one name: its directory's */
  ct_yaml_t *config; /**< owned; NULL: no config.yaml */
  json_t *summary;   /**< owned; NULL: it has not ended */
  json_t *trace;     /**< owned; NULL: no steps were traced */
} ct_run_t;

/** What the runs are compared by. */
typedef struct ct_runs {
  const ct_run_t *run; /**< borrowed */
  int n;
  char metric[48];   /**< a curve that all have */
  int less;          /**< less of it is better */
  double target;     /**< time is told until it is reached */
  int target_chosen; /**< nobody named it: what all runs have reached */
} ct_runs_t;

/** Reads the run of a directory.  CT_ERR_IO, CT_ERR_FORMAT name file and line; no run has begun:
 * CT_ERR_FORMAT. */
int ct_run_open(const char *dir, ct_run_t *out);
void ct_run_close(ct_run_t *r);

/** Gives n runs their labels, and chooses what they are compared by.  \a target: "top1=0.9", a
 * score of evaluations and a value; NULL: the score of the first run's checkpoint.best, or else
 * top1, mae or loss, and the best value that all runs have reached.  CT_ERR_USAGE: not of this
 * form, or a run has no such score. */
int ct_runs_compare(ct_run_t *run, int n, const char *target, ct_runs_t *out);

/** Where the best value of the curve is; -1: there is no such curve, or no point. */
int64_t ct_run_best(const ct_runs_t *c, const ct_run_t *r);
/** Since the training began until the target was reached; NAN: it was not. */
double ct_run_time_to_target(const ct_runs_t *c, const ct_run_t *r);

/** One page that needs nothing else, with inline SVG; appended. */
int ct_runs_html(const ct_runs_t *c, ct_str_t *out);
/** A table for the terminal; appended. */
int ct_runs_text(const ct_runs_t *c, ct_str_t *out);
/** A line per point of each curve; appended. */
int ct_runs_csv(const ct_runs_t *c, ct_str_t *out);
/** A list with an object for each run.  NULL: no memory. */
json_t *ct_runs_json(const ct_runs_t *c);

#endif
