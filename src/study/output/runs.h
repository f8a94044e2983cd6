/** \file runs.h  The sections of the page of training runs; each function appends its section.
 * Internal to report. */
#ifndef CT_REPORT_RUNS_H
#define CT_REPORT_RUNS_H
#include "study/output/ct_runs.h"

/** Returns the state of a run in one word: "done", "running", "error", "killed", "silent". */
const char *ct__run_word(const ct_run_t *r);
/** Returns the duration of all sessions together, in seconds.  A session is one launch of the
 * program for this run. */
double ct__run_time(const ct_run_t *r);
/** Returns the last value of a curve; NAN: the run does not have this curve, or it is empty. */
double ct__run_last(const ct_run_t *r, const char *curve);

/** Formats a number for a table into buf, which is returned: five significant digits, but all
 * digits before the decimal point; "-" for NAN. */
const char *ct__run_number(double value, char *buf, size_t cap);
/** Returns 1 if smaller values of the curve are better, as for losses and errors. */
int ct__run_falls(const char *curve);

/** Appends all curves of the runs, each as a chart with a table. */
int ct__runs_curves(const ct_runs_t *c, ct_str_t *out);
/** Appends the keys of config.yaml in which the runs differ; nothing for one run. */
int ct__runs_settings(const ct_runs_t *c, ct_str_t *out);
/** Appends the time breakdown of a step, from the latest session of each run. */
int ct__runs_breakdown(const ct_runs_t *c, ct_str_t *out);
/** Appends the confusion matrix of the last evaluation of each run. */
int ct__runs_confusion(const ct_runs_t *c, ct_str_t *out);
/** Appends the slowest ops of the traced steps. */
int ct__runs_ops(const ct_runs_t *c, ct_str_t *out);

#endif
