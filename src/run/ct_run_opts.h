/** \file ct_run_opts.h  Sections `run`, `eval`, `job` and `log` of the configuration.  Layer 4.
 * Free of MPI. */
#ifndef CT_RUN_OPTS_H
#define CT_RUN_OPTS_H
#include "conf/ct_opt.h"

/** Section `run`. */
typedef struct ct_run_opts {
  char *dir;
  int64_t seed;
  char *name;
  int64_t log_every; /**< steps between lines of `step` metrics */
  double log_s;      /**< between lines of progress in the log; 0: none */
  char *trace;       /**< steps of the timeline: ct_trace_steps_read() */
} ct_run_opts_t;
extern const ct_opt_t ct_run_rows[];

/** `run.trace`: which steps. */
typedef struct ct_trace_steps {
  int64_t from, to; /**< counted from 1, inclusive; 0, 0: none */
} ct_trace_steps_t;
/** Local.  CT_ERR_USAGE names the key. */
int ct_trace_steps_read(const ct_run_opts_t *o, ct_trace_steps_t *out);

/** Section `eval`. */
typedef struct ct_eval_opts {
  int64_t every_epochs, every_steps; /**< 0: none */
  ct_opt_texts_t metrics;            /**< words of CT_SCORE_KINDS */
  ct_opt_files_t sets;               /**< further data to evaluate on */
  char *watch;                       /**< the one of them that decides what is best; "": data.val */
} ct_eval_opts_t;
extern const ct_opt_t ct_eval_rows[];

/** Section `job`: life on a batch cluster.  Nothing here changes what is computed. */
typedef struct ct_job_opts {
  char *walltime;           /**< auto, off, or a duration from the start of the program */
  double margin_s;          /**< to spare at the end of the job, beyond a step and a checkpoint */
  double watchdog_s;        /**< without progress until the run is ended; 0: never */
  int64_t stragglers_every; /**< steps between two looks for slow ranks; 0: never */
} ct_job_opts_t;
extern const ct_opt_t ct_job_rows[];

/** Section `log`: what others read of a run. */
typedef struct ct_log_opts {
  int tensorboard;                  /**< event files in the run directory */
  int64_t histograms_every;         /**< epochs between those of weights and gradients; 0: none */
  int mllog;                        /**< MLPerf's lines in mllog.log; the rest is said there */
  char *benchmark, *org, *platform; /**< "": as options.c says */
  int division, status;
} ct_log_opts_t;
extern const ct_opt_t ct_log_rows[];

#endif
