/** \file ct_forward_timing.h  Times forward passes without reading data, for `bench predict` and
 * `quantize`.  Layer 5. */
#ifndef CT_APP_PASSES_H
#define CT_APP_PASSES_H
#include "setup/ct_setup.h"
#include "data/feed/ct_feed.h"

/** Timed forward passes; may be all zero: no passes. */
typedef struct ct_passes {
  int n;
  double *pass;  /**< owned; seconds of each pass on the slowest rank, sorted */
  int64_t batch; /**< global batch size */
  double median; /**< median of pass */
} ct_passes_t;

/** Local.  Returns the first batch of s->val.  It is borrowed from *feed, from which no further
 * batch may be taken. */
int ct_passes_batch(const ct_setup_t *s, ct_feed_t **feed, const ct_batch_t **out);
/** Collective.  Makes \a warmup untimed and \a n timed forward passes of s->trainer on one batch.
 */
int ct_passes_run(const ct_setup_t *s, const ct_batch_t *b, int warmup, int n, ct_passes_t *out);
/** Collective.  Returns samples per second over all ranks, from 3 to 50 passes that take about 2 s.
 */
int ct_passes_rate(const ct_setup_t *s, double *out);
void ct_passes_clear(ct_passes_t *p);

#endif
