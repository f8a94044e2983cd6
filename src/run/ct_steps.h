/** \file ct_steps.h  Training steps on a data set in its order, without evaluation, checkpoints and
 * metrics.  Layer 4.
 *
 * The training loop gets its batches from ct_steps_take(); `bench`, `scale` and `doctor` run their
 * steps by ct_steps_next(). */
#ifndef CT_STEPS_H
#define CT_STEPS_H
#include "train/ct_trainer.h"

typedef struct ct_steps {
  ct_trainer_t *t;    /**< borrowed */
  ct_sampler_t order; /**< order of the samples; order.blocks is borrowed */
  ct_feed_t *feed;    /**< NULL: rank 0 reads the samples of all ranks, and this is another rank */
  int64_t epoch, cursor;  /**< position of the next step of ct_steps_next() */
  ct_batch_t none;        /**< empty batch, used if feed is NULL */
  const ct_batch_t *kept; /**< after ct_steps_keep(): the batch of all steps; else NULL */
  int lag; /**< set by the caller to ct_trainer_lag(): ct_steps_next() begins steps ahead; 0: not */
  int pending;                /**< steps that were begun ahead */
  ct_step_report_t report[2]; /**< of these, in their order */
} ct_steps_t;

/** Local.  Opens the steps from \a epoch and \a cursor on, through all following epochs.  Borrows
 * \a t and \a d.  \a workers: number of threads that read. */
int ct_steps_open(ct_trainer_t *t, const ct_dataset_t *d, const ct_sampler_t *order, int64_t epoch,
                  int64_t cursor, int workers, ct_steps_t *out);
/** Local.  Reads the first batch and uses it for all steps, so that no step waits for data.  \a
 * copies 0: it also stays on the device; 1: each step copies it there.  The caller must not copy or
 * move *s after this call. */
int ct_steps_keep(ct_steps_t *s, int copies);
/** Local, Hot.  Returns the batch of the step at this position of the data in *out; waits for the
 * feed.  The caller passes the returned code and *out to ct_trainer_step().  Sets r->data_s. */
int ct_steps_take(ct_steps_t *s, int64_t epoch, int64_t cursor, const ct_batch_t **out,
                  ct_step_report_t *r);
/** Collective, Hot.  Runs the next step and returns the code of ct_trainer_step().  *samples (may
 * be NULL): number of samples in the global batch of the step that is begun last. */
int ct_steps_next(ct_steps_t *s, const ct_schedule_point_t *at, ct_step_status_t *status,
                  ct_step_report_t *r, int64_t *samples);
/** Collective.  Ends the steps that were begun ahead, which drops their results. */
int ct_steps_settle(ct_steps_t *s);
/** Local.  Frees the feed and the batches; *s may be all zero: nothing to free. */
void ct_steps_close(ct_steps_t *s);

#endif
