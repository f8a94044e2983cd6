/** \file progress.h  The progress of a run for people: a bar on a terminal, otherwise a log line
 * every run.log_s seconds.  Local; only rank 0 shows anything. */
#ifndef CT_PROGRESS_H
#define CT_PROGRESS_H
#include "train/ct_trainer.h"

typedef struct ct__progress_line {
  /* set by the caller: */
  int rank;
  int64_t epochs;     /**< epochs of the whole run */
  int64_t total;      /**< steps of the whole run */
  int64_t begun_step; /**< steps done when this session began */
  double begin;       /**< ct_clock() when the training loop began */
  double log_s;       /**< run.log_s */
  const ct_sampler_t *sampler;
  int64_t tokens; /**< of a sample; 0: samples are not windows of tokens */
  /* since the last line: */
  double bar_at;   /**< ct_clock() when the bar was drawn */
  double line_at;  /**< ct_clock() when the last line was written */
  double seconds;  /**< duration of the steps */
  double data_s;   /**< the part of it spent waiting for samples */
  double comm_s;   /**< the part of it spent on communication */
  double first_at; /**< ct_clock() at the end of the first step, which takes longer than others */
} ct__progress_line_t;

/** Hot.  Call after a step that took \a seconds: redraws the bar or logs a line if one is due.
 * \a rate: samples per second so far. */
void ct__progress_line_step(ct__progress_line_t *p, const ct_position_t *at, double loss,
                            double rate, const ct_step_report_t *r, double seconds);
/** Restarts the interval between lines, because another line has just reported the progress. */
void ct__progress_line_reset(ct__progress_line_t *p);

/** Pure.  Returns the epoch of the last step, counted from 1. */
int64_t ct__progress_line_epoch(const ct_position_t *at);

#endif
