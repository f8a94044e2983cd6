/** \file runs.h  The parts of the page of runs; each appends itself.  Internal to report. */
#ifndef CT_REPORT_RUNS_H
#define CT_REPORT_RUNS_H
#include "study/output/ct_runs.h"

/** "done", "running", "error", "killed", "silent": its state in a word. */
const char *ct__run_word(const ct_run_t *r);
/** Of all starts together, in seconds. */
double ct__run_time(const ct_run_t *r);
/** The last value of a curve; NAN: there is none. */
double ct__run_last(const ct_run_t *r, const char *curve);

/** For a table, in buf (returned): five digits, all of those before the point; "-" for NAN. */
const char *ct__run_number(double value, char *buf, size_t cap);
/** Whether less of a curve is better: losses and errors. */
int ct__run_falls(const char *curve);

/** All curves that a run has, each as a picture with its table. */
int ct__runs_curves(const ct_runs_t *c, ct_str_t *out);
/** The keys of config.yaml in which the runs differ; appends nothing for one run. */
int ct__runs_settings(const ct_runs_t *c, ct_str_t *out);
/** Of the last start: the kinds of time in a step. */
int ct__runs_account(const ct_runs_t *c, ct_str_t *out);
int ct__runs_confusion(const ct_runs_t *c, ct_str_t *out);
/** Of the traced steps: the ops that took longest. */
int ct__runs_ops(const ct_runs_t *c, ct_str_t *out);

#endif
