/** \file lines.h  Lines of the training loop in metrics.jsonl and in the log.  Local; on ranks
 * other than 0 all calls do nothing. */
#ifndef CT_LINES_H
#define CT_LINES_H
#include "run/ct_loop.h"

typedef struct ct__lines {
  const ct_loop_opts_t *o;
  ct_trainer_t *t;
  int64_t begun_step; /**< steps done when this session began */
  double begin;       /**< ct_clock() when the training loop began */
} ct__lines_t;

/** Sums over the steps of an epoch that ran in this session. */
typedef struct ct__epoch_sums {
  double loss;   /**< sum of the losses, each multiplied by the weight of its samples */
  double weight; /**< sum of the weights of the samples */
  int64_t samples;
} ct__epoch_sums_t;

/** Returns the mean loss; 0 without steps. */
static inline double ct__epoch_loss(const ct__epoch_sums_t *e)
{
  return e->weight > 0 ? e->loss / e->weight : 0;
}

/** Returns 1 if \a step, counted from 1, gets a line in metrics.jsonl. */
int ct__lines_logged(const ct__lines_t *l, int64_t step);
/** Writes the line of the step that ended at \a at if ct__lines_logged(), and the line of the first
 * step. */
int ct__lines_step(const ct__lines_t *l, const ct_position_t *at, const ct_step_status_t *w,
                   const ct_step_report_t *r, const ct_schedule_point_t *point, double seconds);
/** Writes the lines at the end of an epoch; \a e: the evaluation of the epoch, or NULL. */
int ct__lines_epoch_end(const ct__lines_t *l, const ct_position_t *at, const ct__epoch_sums_t *sums,
                        const ct_eval_result_t *e);
/** Writes the lines of an evaluation within an epoch. */
int ct__lines_eval(const ct__lines_t *l, const ct_position_t *at, const ct_eval_result_t *e);
/** Writes the lines that say that train.early_stop has ended the run. */
int ct__lines_early_stop(const ct__lines_t *l, const ct_position_t *at);

#endif
