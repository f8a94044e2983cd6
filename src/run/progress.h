/** \file progress.h  The progress of a run for people: a bar on a terminal, otherwise a log line
 * every run.log_s seconds.  Local; only rank 0 shows anything. */
#ifndef CT_PROGRESS_H
#define CT_PROGRESS_H
#include "train/ct_trainer.h"

typedef struct ct__progress_line {
  /* set by the caller: */
  int rank;
  int64_t epochs, total; /**< epochs and steps of the whole run */
  int64_t begun_step;    /**< steps done when this process began */
  double begin, log_s;   /**< ct_clock() at the beginning; run.log_s */
  const ct_sampler_t *sampler;
  /* since the last line: */
  double bar_at, line_at;
  double seconds, data_s, comm_s;
  double first_at; /**< end of the first step, which takes longer than others */
} ct__progress_line_t;

/** Hot.  After a step that took so many seconds: redraws the bar or logs a line if one is due.
 * \a rate: samples per second so far. */
void ct__progress_line_step(ct__progress_line_t *p, const ct_position_t *at, double loss,
                            double rate, const ct_step_report_t *r, double seconds);
/** Another line has reported where the run stands. */
void ct__progress_line_reset(ct__progress_line_t *p);

/** Pure.  The epoch of the last step, counted from 1. */
int64_t ct__progress_line_epoch(const ct_position_t *at);

#endif
