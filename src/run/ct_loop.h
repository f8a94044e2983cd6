/** \file ct_loop.h  The training loop: steps, and what happens between them.  Layer 4. */
#ifndef CT_LOOP_H
#define CT_LOOP_H
#include "job/ct_stop.h"
#include "run/ct_account.h"
#include "run/ct_eval.h"
#include "run/ct_meter.h"
#include "run/ct_run_opts.h"

typedef struct ct_loop_opts {
  const ct_run_opts_t *run;
  const ct_train_opts_t *train;
  ct_early_stop_t early_stop;
  const ct_schedule_opts_t *schedule;
  const ct_ckpt_opts_t *ckpt;
  const ct_job_opts_t *job;
  const char *config_text; /**< resolved configuration: goes into checkpoints */
  const char *versions;    /**< likewise */
  const char *messages;    /**< likewise: how gradients travel; NULL: as the configuration says */
  const ct_store_ops_t *store;
  const ct_dataset_t *data, *val; /**< val may be NULL */
  ct_sampler_t sampler;           /**< of training */
  const ct_eval_opts_t *eval;
  ct_eval_set_t *set; /**< sets[] besides val; what comes of them is written there */
  int sets;
  ct_eval_want_t want;  /**< what an evaluation measures */
  int64_t eval_batch;   /**< global */
  int64_t verify_every; /**< steps; 0: never */
  int workers;
  int64_t max_skipped;        /**< samples of an epoch, if data->skip */
  const char *dir;            /**< run directory, made by the caller */
  const ct_backend_t *be;     /**< whose energy … */
  ct_dev_t *dev;              /**< … is read */
  struct ct_metrics *metrics; /**< rank 0; NULL elsewhere */
  struct ct_mllog *mllog;     /**< likewise; may be NULL */
  struct ct_events *events;   /**< likewise, for histograms … */
  const ct_graph_t *graph;    /**< … of its parameters … */
  int64_t histograms_every;   /**< … every so many epochs; 0: none */
  struct ct_rundir *rundir;   /**< likewise; looked at before each checkpoint; may be NULL */
} ct_loop_opts_t;

/** What a finished run has to say. */
typedef struct ct_loop_result {
  ct_eval_result_t last; /**< samples 0: never evaluated */
  ct_position_t at;
  double seconds, samples_per_s;  /**< of training steps */
  ct_account_sum_t account;       /**< of all steps but the first */
  double loop_s, eval_s, stall_s; /**< in all; of it in evaluations, and waiting for checkpoints */
  double train_loss;              /**< mean over the last epoch so far */
  ct_meter_sum_t energy;          /**< rank 0: of all from the first step on; joule < 0: unknown */
  double joule_per_sample;        /**< likewise, of the samples trained on */
  ct_stop_reason_t stopped;       /**< asked to stop before the end; a checkpoint was written */
  int idle;                       /**< 1: nothing was left to do */
} ct_loop_result_t;

/** Pure.  1 if nothing is left to train: epochs and steps are done, or early_stop has ended it. */
int ct_train_is_over(const ct_train_opts_t *o, const ct_early_stop_t *early,
                     const ct_position_t *at);

/** Collective.  Trains from \a at to the end; metrics, evaluation, checkpoints, stop requests.
 *
 * Whoever asks to stop, a signal to any rank or the end of the job's time (job.walltime, by rank
 * 0's clock), all ranks stop after the same step, and at least one step is made.  An evaluation is
 * broken off and not told; its checkpoint stands at the end of the epoch (cursor: all samples), and
 * the run that goes on from there makes the evaluation first.  If the job's time is not even enough
 * for that: CT_ERR_USAGE. */
int ct_train_loop(ct_trainer_t *t, const ct_loop_opts_t *o, ct_position_t at,
                  ct_loop_result_t *out);

#endif
