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

/** A step that was begun and is not ended yet. */
typedef struct ct__begun_step {
  int64_t step, cursor; /**< position after it, in the epoch of ct__loop_t.at */
  int64_t samples;      /**< on all ranks, ignored ones included */
  double begin;         /**< ct_clock() */
  ct_schedule_point_t point;
  ct_step_report_t report;
  ct_batch_t batch; /**< copy; the arrays may have been reused since */
} ct__begun_step_t;

typedef struct ct__loop {
  ct_trainer_t *t;
  const ct_topo_t *topo;
  const ct_loop_opts_t *o;
  ct_loop_result_t *out;
  ct_position_t at;          /**< after the last step that was ended */
  ct__begun_step_t begun[2]; /**< steps begun after `at`, in their order */
  int pending;               /**< number of them */
  double ended;              /**< ct_clock() when the last step was ended */
  ct_steps_t steps;
  ct_breakdown_lines_t *breakdown_lines;
  ct_trace_file_t trace;
  ct_meter_t *meter;
  double apart_s;       /* seconds spent in evaluations and on the timeline since the last step */
  double saving_s;      /* seconds spent in checkpoints since the last step */
  ct_ckpt_t *ckpt;      /* rank 0 */
  ct_ckpt_item_t *item; /* rank 0 */
  int items;
  ct_ckpt_text_t text[3];
  int texts;
  char dir[CT_PATH_MAX]; /* directory of the checkpoints */
  int writing;           /* rank 0: 1: a write was begun, and its result is not known yet */
  int64_t saved_step;    /* step of the newest checkpoint that this run has begun; -1: none */
  int is_best;           /* 1: the last evaluation is the best so far and not saved yet */
  int64_t good_step;     /* rank 0: step of the newest complete checkpoint; 0: none */
  double stall_s;        /* seconds that training waited for the last checkpoint */
  double save_s;      /* rank 0: ct__checkpointing_seconds(), 0 if no checkpoint is complete yet */
  int64_t begun_step; /* steps done when this session began */
  int64_t evaluated_step; /* step of the last evaluation */
  double begin;           /* ct_clock() when the loop began */
  double trained_s;       /* duration of the steps of this session */
  ct__lines_t lines;
  ct__progress_line_t progress;
  int64_t trained; /* samples that this session has trained on */
  ct__epoch_sums_t sums;
  ct_walltime_t walltime;
  double slow_step_s; /* rank 0: duration of the slowest recent step */
} ct__loop_t;

/* ---- checkpointing.c ---- */

/** Local.  Prepares checkpoints on rank 0; other ranks only set the directory. */
int ct__checkpointing_open(ct__loop_t *l);
void ct__checkpointing_close(ct__loop_t *l);
/** Returns 1 if a checkpoint is due after this step because of its number. */
int ct__checkpointing_is_step(const ct__loop_t *l, int64_t step);
/** Returns 1 if a checkpoint is due after the last step, or if the evaluation after that step was
 * the best so far; identical on all ranks. */
int ct__checkpointing_due(const ct__loop_t *l, int epoch_end);
/** Collective if ct_trainer_snapshot_is_collective(), otherwise local.  Copies the state and begins
 * to write it.  \a own: this rank's code so far; nothing is saved unless it is CT_OK. */
int ct__checkpointing_begin(ct__loop_t *l, int own);
/** Local.  If the previous write is complete, returns its result and writes its line of
 * metrics.jsonl.  A failed write is an error with checkpoint.on_error: stop; with continue it is a
 * warning, and the next checkpoint tries again.  \a last: waits for the last write of the run,
 * whose failure is always an error: exit status 0 and 75 promise a checkpoint of the final
 * state. */
int ct__checkpointing_end(ct__loop_t *l, int last);
/** Local, rank 0.  Returns the seconds from the beginning of a checkpoint until it is durable,
 * including the copy of the state: those of the slowest recent checkpoint; before the first
 * checkpoint is complete, an estimate from its size in bytes. */
double ct__checkpointing_seconds(const ct__loop_t *l);

/* ---- stop_policy.c ---- */

/** Local.  Finds out when the job ends and logs it. */
int ct__stop_policy_open(ct__loop_t *l);
/** Local, Hot.  Call before a step.  Rank 0 returns a stop request if the job's time limit allows
 * no further step after this one.  Otherwise, and on other ranks, returns 0.  Signals are checked
 * at the end of the step. */
int64_t ct__stop_policy_before_step(const ct__loop_t *l);
/** Local.  Logs the origin of a stop request, followed by the text \a now. */
void ct__stop_policy_log(const ct__loop_t *l, int64_t stop, const char *now);

/** State of the stop requests during one evaluation. */
typedef struct ct__stop_policy_asker {
  const ct__loop_t *l;
  double asked_at;     /* rank 0: ct_clock() of the last call */
  double slow_batch_s; /* rank 0: duration of the slowest batch so far */
} ct__stop_policy_asker_t;
/** Returns the callback for ct_evaluate() that asks for stop requests; it borrows \a a. */
ct_ask_t ct__stop_policy_during(const ct__loop_t *l, ct__stop_policy_asker_t *a);

/* ---- skipped_samples.c ---- */

/** Collective.  Call after a step in which all ranks together skipped \a skipped samples: rank 0
 * logs them.  CT_ERR_DATA: more than data.max_skipped samples were skipped in this epoch. */
int ct__skips_step(ct__loop_t *l, const ct_batch_t *b, int64_t skipped);

#endif
