/** \file ct_run_opts.h  Sections `run`, `eval`, `job` and `log` of the configuration.  Layer 4.
 * Free of MPI. */
#ifndef CT_RUN_OPTS_H
#define CT_RUN_OPTS_H
#include "base/ct_trace.h"
#include "conf/ct_opt.h"

/** Section `run`. */
typedef struct ct_run_opts {
  char *dir;
  int64_t seed;
  char *name;
  int64_t log_every; /**< steps between lines of `step` metrics */
  double log_s;      /**< seconds between progress lines in the log; 0: none */
  char *trace;       /**< steps of the timeline; ct_trace_steps_read() parses it */
} ct_run_opts_t;
extern const ct_opt_t ct_run_rows[];

/** Local.  Parses `run.trace`.  CT_ERR_USAGE names the key. */
int ct_trace_steps_read(const ct_run_opts_t *o, ct_trace_steps_t *out);

/** Section `eval`. */
typedef struct ct_eval_opts {
  int64_t every_epochs;   /**< epochs between evaluations; 0: none */
  int64_t every_steps;    /**< steps between evaluations; 0: none */
  ct_opt_texts_t metrics; /**< names of CT_SCORE_KINDS */
  ct_opt_files_t sets;    /**< data sets to evaluate on, besides data.val */
  char *watch;            /**< the data set that decides which model is best; "": data.val */
  char *output;           /**< of several losses: the output that decides it; "": their sum */
} ct_eval_opts_t;
extern const ct_opt_t ct_eval_rows[];

/** Section `job`: batch system, watchdog, slow ranks.  Nothing here changes what is computed. */
typedef struct ct_job_opts {
  char *walltime;           /**< auto, off, or a duration from the start of the program */
  double margin_s;          /**< seconds to keep free before the end of the job, in addition to the
                                 time of one step and one checkpoint */
  double watchdog_s;        /**< seconds without progress until the run is aborted; 0: never */
  int64_t stragglers_every; /**< steps between reports of the time breakdown and of slow ranks; 0:
                                 none */
} ct_job_opts_t;
extern const ct_opt_t ct_job_rows[];

/** Section `log`: output for other programs. */
typedef struct ct_log_opts {
  int tensorboard;          /**< 1: writes event files into the run directory */
  int64_t histograms_every; /**< epochs between histograms of weights and gradients; 0: none */
  int mllog;                /**< 1: writes MLPerf's mllog.log, with the fields below */
  char *benchmark, *org, *platform; /**< texts in mllog.log; "": the defaults in options.c */
  int division, status;             /**< indices of the choices in options.c */
} ct_log_opts_t;
extern const ct_opt_t ct_log_rows[];

#endif
