/** \file ct_loop.h  The training loop: steps, evaluations, checkpoints, stop requests.  Layer 4. */
#ifndef CT_LOOP_H
#define CT_LOOP_H
#include "job/ct_stop.h"
#include "telemetry/ct_time_breakdown.h"
#include "eval/ct_eval.h"
#include "telemetry/ct_meter.h"
#include "run/ct_run_opts.h"

typedef struct ct_loop_opts {
  const ct_run_opts_t *run;
  const ct_train_opts_t *train;
  ct_early_stop_t early_stop;
  const ct_schedule_opts_t *schedule;
  const ct_ckpt_opts_t *ckpt;
  const ct_job_opts_t *job;
  const char *config_text; /**< resolved configuration, stored in checkpoints */
  const char *versions;    /**< of this program and its libraries, stored in checkpoints */
  const char *messages; /**< measured communication settings, stored in checkpoints; NULL: none */
  const ct_store_ops_t *store;
  const ct_dataset_t *data, *val; /**< val may be NULL */
  ct_sampler_t sampler;           /**< order of the training samples */
  const ct_eval_opts_t *eval;
  ct_eval_set_t *set; /**< evaluation sets besides val; receive their results */
  int sets;
  ct_eval_want_t want;  /**< what an evaluation measures */
  int64_t eval_batch;   /**< global batch size of an evaluation */
  int64_t verify_every; /**< steps between checks that all ranks have equal weights; 0: never */
  int workers;
  int64_t max_skipped;        /**< if data->skip: maximum number of skipped samples per epoch */
  const char *dir;            /**< run directory, which the caller has created */
  const ct_backend_t *be;     /**< backend of dev */
  ct_dev_t *dev;              /**< device of this rank, whose energy is measured */
  struct ct_metrics *metrics; /**< rank 0; NULL elsewhere */
  struct ct_mllog *mllog;     /**< rank 0; may be NULL */
  struct ct_events *events;   /**< rank 0, for histograms; may be NULL */
  const ct_graph_t *graph;    /**< its parameters get histograms */
  int64_t histograms_every;   /**< epochs between histograms; 0: none */
  struct ct_rundir *rundir;   /**< rank 0; checked before each checkpoint; may be NULL */
} ct_loop_opts_t;

/** The results of a run. */
typedef struct ct_loop_result {
  ct_eval_result_t last; /**< samples 0: never evaluated */
  ct_position_t at;
  double seconds;               /**< duration of the training steps */
  double samples_per_s;         /**< samples per second during training steps */
  double tokens_per_s;          /**< windows of tokens: tokens; 0: samples are not */
  double flops_per_token;       /**< 6N + 12LCT (token_rate.h) */
  double peak_rss;              /**< bytes: largest peak resident set size of any rank; after an
                                   error of this one */
  double mfu;                   /**< NaN: train.peak_tflops is not set */
  ct_breakdown_sum_t breakdown; /**< time breakdown of all steps but the first */
  double loop_s;                /**< total duration of the loop */
  double eval_s;                /**< seconds spent in evaluations */
  double stall_s;               /**< seconds spent waiting for checkpoints */
  double train_loss;            /**< mean over the last epoch so far */
  ct_meter_sum_t energy;        /**< rank 0: energy of all nodes since the first step; joule < 0:
                                     unknown */
  double joule_per_sample;      /**< rank 0: energy per sample trained on */
  ct_stop_reason_t stopped; /**< why training stopped before the end; a checkpoint was written */
  int idle;                 /**< 1: nothing was left to train */
} ct_loop_result_t;

/** Pure.  Returns 1 if nothing is left to train: all epochs or steps are done, or early stopping
 * has ended the training. */
int ct_train_is_over(const ct_train_opts_t *o, const ct_early_stop_t *early,
                     const ct_position_t *at);

/** Collective.  Trains from \a at to the end; writes metrics, evaluates, writes checkpoints, and
 * obeys stop requests.
 *
 * A stop request is a signal to any rank or the end of the job's time (job.walltime, by the clock
 * of rank 0).  All ranks stop after the same step, and make at least one step.  A stop request
 * during an evaluation interrupts it without a result; the checkpoint is then positioned at the end
 * of the epoch (cursor: all samples), and the session that resumes from it evaluates first.
 * CT_ERR_USAGE: the job's time is too short for this evaluation. */
int ct_train_loop(ct_trainer_t *t, const ct_loop_opts_t *o, ct_position_t at,
                  ct_loop_result_t *out);

#endif
