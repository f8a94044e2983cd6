/** \file loop.h  What the files of the training loop share: loop.c goes through steps and epochs,
 * saves.c makes checkpoints between them, stops.c knows when to stop, lines.c tells the user and
 * metrics.jsonl. */
#ifndef CT_LOOP_PRIVATE_H
#define CT_LOOP_PRIVATE_H
#include "comm/ct_clocks.h"
#include "job/ct_walltime.h"
#include "run/account_lines.h"
#include "run/ct_loop.h"
#include "run/ct_metrics.h"
#include "run/ct_steps.h"
#include "run/lines.h"
#include "run/shown.h"

/** The timeline of some steps: of trace.c. */
typedef struct ct__tracing {
  ct_trace_steps_t steps;
  int64_t from; /**< the first that is in it; 0: it has not begun */
  int over;
  ct_clock_offset_t clock[2]; /**< before and behind */
} ct__tracing_t;

typedef struct ct__loop {
  ct_trainer_t *t;
  const ct_topo_t *topo;
  const ct_loop_opts_t *o;
  ct_loop_result_t *out;
  ct_position_t at;
  ct_steps_t steps;
  ct__accounts_t *accounts;
  ct__tracing_t tracing;
  ct_meter_t *meter;
  double apart_s, saving_s; /* since the last step: in evaluations, in checkpoints */
  ct_ckpt_t *ckpt;          /* rank 0 */
  ct_ckpt_item_t *item;     /* rank 0 */
  int items;
  ct_ckpt_text_t text[3];
  int texts;
  char dir[CT_PATH_MAX]; /* of the checkpoints */
  int writing;           /* rank 0: one was begun, and what came of it is not known yet */
  int64_t saved_step;    /* of the newest checkpoint of this run that was begun; -1: none */
  int is_best;           /* the last evaluation was the best so far, and is not saved yet */
  int64_t good_step;     /* rank 0: of the newest one that can be gone back to; 0: none */
  double stall_s;        /* that training waited for the one begun last */
  double save_s;         /* rank 0: ct__saves_seconds(), 0 if no checkpoint is complete yet */
  int64_t begun_step, evaluated_step;
  double begin, trained_s;
  ct__lines_t lines;
  ct__shown_t shown;
  int64_t trained; /* samples of this run */
  ct__epoch_sums_t sums;
  ct_walltime_t walltime;
  double slow_step_s; /* rank 0: the slowest step of late */
} ct__loop_t;

/* ---- saves.c ---- */

/** Local.  Opens what rank 0 needs to save; the other ranks learn the directory alone. */
int ct__saves_open(ct__loop_t *l);
void ct__saves_close(ct__loop_t *l);
/** 1 if a checkpoint is due after the step that was made last, or its evaluation was the best so
 * far; alike on all ranks. */
int ct__saves_due(const ct__loop_t *l, int epoch_end);
/** Collective where the snapshot is, else local.  Copies the state and begins to write it; \a own
 * is this rank's code so far, and nothing is saved unless it is CT_OK. */
int ct__saves_begin(ct__loop_t *l, int own);
/** Local.  The result of the write before, if it is over; metrics.jsonl gets its line.  A write
 * that failed is an error with checkpoint.on_error: stop; with continue a warning, and the next one
 * that is due tries again.  \a last: it is the run's last one and is waited for, and its failure
 * always is an error: exit status 0 and 75 promise a checkpoint of the point where the run ended.
 */
int ct__saves_end(ct__loop_t *l, int last);
/** Local, rank 0.  Seconds from the beginning of a checkpoint until it is durable, the copying of
 * the state included: the slowest of late; before one is complete, guessed from the bytes. */
double ct__saves_seconds(const ct__loop_t *l);

/* ---- stops.c ---- */

/** Local.  When the job ends, and what is known of it at the start, as a line of the log. */
int ct__stops_open(ct__loop_t *l);
/** Local, Hot.  Asked before a step: the stop word of rank 0, if the job's time allows no step
 * behind it; 0 on the others.  Signals are looked at when the step ends. */
int64_t ct__stops_before_step(const ct__loop_t *l);
/** Local.  One line: who asked, and what happens now. */
void ct__stops_tell(const ct__loop_t *l, int64_t stop, const char *now);

/** Who asks the questions of one evaluation. */
typedef struct ct__stops_asker {
  const ct__loop_t *l;
  double asked_at, slow_batch_s; /* rank 0 */
} ct__stops_asker_t;
/** For ct_evaluate(); borrows \a a. */
ct_ask_t ct__stops_during(const ct__loop_t *l, ct__stops_asker_t *a);

/* ---- skips.c ---- */

/** Collective, behind a step in which the ranks together left out so many samples: rank 0 tells
 * which.  CT_ERR_DATA: more than data.max_skipped in this epoch. */
int ct__skips_step(ct__loop_t *l, const ct_batch_t *b, int64_t skipped);

/* ---- trace.c ---- */

/** Collective, before each step: the timeline begins here, if it does. */
int ct__trace_before(ct__loop_t *l);
/** Collective, behind each step, and at the end (\a last): it is over, if it is, and rank 0 writes
 * it. */
int ct__trace_behind(ct__loop_t *l, int last);

/* ---- histograms.c ---- */

/** Local, between two steps, behind the last one of an epoch: histograms for TensorBoard, if they
 * are due and this rank writes. */
int ct__histograms(const ct__loop_t *l);

#endif
