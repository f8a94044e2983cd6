/** \file loop.h  Internal state of the training loop: loop.c runs steps and epochs, checkpointing.c
 * writes checkpoints, stop_policy.c decides when to stop, skipped_samples.c reports skipped
 * samples. */
#ifndef CT_LOOP_PRIVATE_H
#define CT_LOOP_PRIVATE_H
#include "job/ct_walltime.h"
#include "telemetry/ct_time_breakdown_lines.h"
#include "run/ct_loop.h"
#include "telemetry/ct_metrics.h"
#include "telemetry/ct_trace_file.h"
#include "run/ct_steps.h"
#include "run/lines.h"
#include "run/progress.h"

typedef struct ct__loop {
  ct_trainer_t *t;
  const ct_topo_t *topo;
  const ct_loop_opts_t *o;
  ct_loop_result_t *out;
  ct_position_t at;
  ct_steps_t steps;
  ct_breakdown_lines_t *breakdown_lines;
  ct_trace_file_t trace;
  ct_meter_t *meter;
  double apart_s, saving_s; /* seconds since the last step in evaluations, in checkpoints */
  ct_ckpt_t *ckpt;          /* rank 0 */
  ct_ckpt_item_t *item;     /* rank 0 */
  int items;
  ct_ckpt_text_t text[3];
  int texts;
  char dir[CT_PATH_MAX]; /* directory of the checkpoints */
  int writing;           /* rank 0: a write was begun, and its result is not known yet */
  int64_t saved_step;    /* step of the newest checkpoint that this run has begun; -1: none */
  int is_best;           /* the last evaluation is the best so far and not saved yet */
  int64_t good_step;     /* rank 0: step of the newest complete checkpoint; 0: none */
  double stall_s;        /* seconds that training waited for the last checkpoint */
  double save_s; /* rank 0: ct__checkpointing_seconds(), 0 if no checkpoint is complete yet */
  int64_t begun_step, evaluated_step;
  double begin, trained_s;
  ct__lines_t lines;
  ct__progress_line_t progress;
  int64_t trained; /* samples of this run */
  ct__epoch_sums_t sums;
  ct_walltime_t walltime;
  double slow_step_s; /* rank 0: recent slowest step */
} ct__loop_t;

/* ---- checkpointing.c ---- */

/** Local.  Prepares checkpoints on rank 0; other ranks only set the directory. */
int ct__checkpointing_open(ct__loop_t *l);
void ct__checkpointing_close(ct__loop_t *l);
/** 1 if a checkpoint is due after the last step, or if its evaluation was the best so far;
 * identical on all ranks. */
int ct__checkpointing_due(const ct__loop_t *l, int epoch_end);
/** Collective if ct_trainer_snapshot_is_collective(), otherwise local.  Copies the state and begins
 * to write it.  \a own: this rank's code so far; nothing is saved unless it is CT_OK. */
int ct__checkpointing_begin(ct__loop_t *l, int own);
/** Local.  Returns the result of the previous write if that is complete, and writes its line of
 * metrics.jsonl.  A failed write is an error with checkpoint.on_error: stop; with continue it is a
 * warning, and the next checkpoint tries again.  \a last: waits for the last write of the run,
 * whose failure is always an error: exit status 0 and 75 promise a checkpoint of the final
 * state. */
int ct__checkpointing_end(ct__loop_t *l, int last);
/** Local, rank 0.  Seconds from the beginning of a checkpoint until it is durable, including the
 * copy of the state: the recent slowest; before the first is complete, estimated from its bytes. */
double ct__checkpointing_seconds(const ct__loop_t *l);

/* ---- stop_policy.c ---- */

/** Local.  Finds out when the job ends and logs it. */
int ct__stop_policy_open(ct__loop_t *l);
/** Local, Hot.  Before a step: a stop request on rank 0 if the job's time allows no step after this
 * one; otherwise, and on other ranks, 0.  Signals are checked at the end of the step. */
int64_t ct__stop_policy_before_step(const ct__loop_t *l);
/** Local.  Logs the origin of a stop request, followed by \a now. */
void ct__stop_policy_log(const ct__loop_t *l, int64_t stop, const char *now);

/** State of the stop requests during one evaluation. */
typedef struct ct__stop_policy_asker {
  const ct__loop_t *l;
  double asked_at, slow_batch_s; /* rank 0 */
} ct__stop_policy_asker_t;
/** For ct_evaluate(); borrows \a a. */
ct_ask_t ct__stop_policy_during(const ct__loop_t *l, ct__stop_policy_asker_t *a);

/* ---- skipped_samples.c ---- */

/** Collective.  After a step in which all ranks together skipped so many samples: rank 0 logs them.
 * CT_ERR_DATA: more than data.max_skipped in this epoch. */
int ct__skips_step(ct__loop_t *l, const ct_batch_t *b, int64_t skipped);

#endif
