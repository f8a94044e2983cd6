/** \file passes.h  How long a forward pass takes, without the reading: for `bench predict` and
 * `quantize`.  Layer 5. */
#ifndef CT_APP_PASSES_H
#define CT_APP_PASSES_H
#include "setup/ct_setup.h"
#include "data/feed/ct_feed.h"

/** Timed passes.  {0} is empty. */
typedef struct ct_passes {
  int n;
  double *pass; /**< owned: seconds of each timed pass, the slowest rank's; in the order of time
                   they took */
  int64_t batch;
  double median;
} ct_passes_t;

/** Local.  The first batch of s->val, borrowed from *feed, a feed that is not asked again. */
int ct_passes_batch(const ct_setup_t *s, ct_feed_t **feed, const ct_batch_t **out);
/** Collective.  Passes of s->trainer on a batch: warmup, then n that are timed. */
int ct_passes_run(const ct_setup_t *s, const ct_batch_t *b, int warmup, int n, ct_passes_t *out);
/** Collective.  Samples per second of all ranks, of 3 to 50 passes in about 2 seconds. */
int ct_passes_rate(const ct_setup_t *s, double *out);
void ct_passes_clear(ct_passes_t *p);

#endif
