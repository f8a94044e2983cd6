/** \file ct_few_steps.h  Steps as a run makes them, on its data in its order, but of no run:
 * nothing is evaluated, saved or logged.  Layer 5. */
#ifndef CT_FEW_STEPS_H
#define CT_FEW_STEPS_H
#include "setup/ct_setup.h"

typedef struct ct_few_steps {
  ct_setup_t *s;
  ct_sampler_t order;
  ct_feed_t *feed;
  int64_t cursor; /**< where the next step begins in its epoch */
} ct_few_steps_t;

/** Collective.  From the first epoch's first sample on; \a s has a trainer and outlives it. */
int ct_few_steps_open(ct_setup_t *s, ct_few_steps_t *out);
/** Collective.  What ct_trainer_step() says of it; an epoch that ends is followed by the next. */
int ct_few_steps_next(ct_few_steps_t *f, const ct_schedule_point_t *at, ct_step_word_t *word,
                      ct_step_report_t *report);
/** A zeroed one is fine. */
void ct_few_steps_close(ct_few_steps_t *f);

#endif
