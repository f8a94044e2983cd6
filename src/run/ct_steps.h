/** \file ct_steps.h  Training steps on a data set in its order, and nothing else of a run: no
 * evaluation, no checkpoint, no metrics.  Layer 4.
 *
 * The training loop takes its batches here; `bench`, `scale` and `doctor` make their steps here. */
#ifndef CT_STEPS_H
#define CT_STEPS_H
#include "train/ct_trainer.h"

typedef struct ct_steps {
  ct_trainer_t *t;        /**< borrowed */
  ct_sampler_t order;     /**< its blocks are borrowed */
  ct_feed_t *feed;        /**< NULL: this rank gets no samples, rank 0 has them all */
  int64_t epoch, cursor;  /**< where ct_steps_next() makes the next step */
  ct_batch_t none;        /**< stands for the batch on a rank without samples */
  const ct_batch_t *kept; /**< ct_steps_keep(): the batch of all steps; else NULL */
} ct_steps_t;

/** Local.  Steps from \a epoch and \a cursor on, through all following epochs.  Borrows \a t and
 * \a d.  \a workers: threads that read. */
int ct_steps_open(ct_trainer_t *t, const ct_dataset_t *d, const ct_sampler_t *order, int64_t epoch,
                  int64_t cursor, int workers, ct_steps_t *out);
/** Local.  Reads the first batch and uses it for all steps, so that none waits for data.  \a s must
 * not move from now on. */
int ct_steps_keep(ct_steps_t *s);
/** Local, Hot.  The batch of the step at this position of the data; waits for the feed.  The caller
 * passes the returned code and *out to ct_trainer_step().  Sets r->data_s. */
int ct_steps_take(ct_steps_t *s, int64_t epoch, int64_t cursor, const ct_batch_t **out,
                  ct_step_report_t *r);
/** Collective, Hot.  Makes the next step; returns what ct_trainer_step() returns. *samples (may be
 * NULL): of its global batch. */
int ct_steps_next(ct_steps_t *s, const ct_schedule_point_t *at, ct_step_status_t *status,
                  ct_step_report_t *r, int64_t *samples);
/** Local.  A zeroed one is fine. */
void ct_steps_close(ct_steps_t *s);

#endif
