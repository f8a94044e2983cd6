/** \file lines.h  Lines of the training loop in metrics.jsonl and in the log.  Local; on ranks
 * other than 0 all calls do nothing. */
#ifndef CT_LINES_H
#define CT_LINES_H
#include "run/ct_loop.h"

typedef struct ct__lines {
  const ct_loop_opts_t *o;
  ct_trainer_t *t;
  int64_t begun_step; /**< steps done when this process began */
  double begin;       /**< ct_clock() at its beginning */
} ct__lines_t;

/** Sums over the steps of an epoch that this process has made. */
typedef struct ct__epoch_sums {
  double loss, weight;
  int64_t samples;
} ct__epoch_sums_t;

/** The mean loss; 0 without steps. */
static inline double ct__epoch_loss(const ct__epoch_sums_t *e)
{
  return e->weight > 0 ? e->loss / e->weight : 0;
}

/** 1: \a step, counted from 1, gets a line in metrics.jsonl. */
int ct__lines_logged(const ct__lines_t *l, int64_t step);
/** Lines of the step that led to \a at, if it gets one, and of the first step. */
int ct__lines_step(const ct__lines_t *l, const ct_position_t *at, const ct_step_status_t *w,
                   const ct_step_report_t *r, const ct_schedule_point_t *point, double seconds);
/** Lines at the end of an epoch; \a e: its evaluation, NULL: there was none. */
int ct__lines_epoch_end(const ct__lines_t *l, const ct_position_t *at, const ct__epoch_sums_t *sums,
                        const ct_eval_result_t *e);
/** Lines of an evaluation within an epoch. */
int ct__lines_eval(const ct__lines_t *l, const ct_position_t *at, const ct_eval_result_t *e);
/** Lines of a run that train.early_stop ends. */
int ct__lines_early_stop(const ct__lines_t *l, const ct_position_t *at);

#endif
