/** \file ct_feed.h  Batches, read and converted ahead of their use.  Layer 2.  Everything is local.
 *
 * A feed runs through the steps of an epoch from a cursor on, for one rank.  Worker threads keep
 * the next batches ready; with 0 workers a batch is made when it is asked for. */
#ifndef CT_FEED_H
#define CT_FEED_H
#include "data/ct_dataset.h"
#include "data/feed/ct_io_times.h"
#include "data/order/ct_sampler.h"

#define CT_SKIPS_TOLD 4
/** A sample that could not be made, and the one that took its place. */
typedef struct ct_skip {
  int64_t id, instead;
  char why[320]; /**< names file and sample */
} ct_skip_t;

/** One rank's share of one step, borrowed from the feed until the next ct_feed_next() or close. */
typedef struct ct_batch {
  int64_t epoch, cursor;       /**< of the global step */
  int64_t global;              /**< samples of the step over all ranks */
  int64_t first;               /**< position of x[0] within the global batch */
  int n;                       /**< samples of this rank; 0 is possible */
  float *x;                    /**< [n, C, H, W] plain, 64-byte aligned, room for the largest n */
  float *more[CT_INPUTS_MORE]; /**< [n, …] of each further input, plain */
  uint8_t *bytes;   /**< instead of x (which is NULL then): [n] samples as stored, unconverted */
  int32_t *labels;  /**< [n], or [n, places]; zeros if the data has targets */
  int32_t *labels2; /**< mixup, cutmix: [n], the label that is mixed in; else NULL */
  float *mix;       /**< likewise: [n], share of labels[i] */
  float *weights;   /**< [n], of the samples; NULL: they count alike */
  float *targets;   /**< [n, K] if the data has real-valued targets; else NULL */
  int64_t *ids;     /**< [n] sample numbers */
  int skipped;      /**< samples that could not be made (ct_dataset_t.skip) */
  ct_skip_t skip[CT_SKIPS_TOLD]; /**< the first of them */
} ct_batch_t;

typedef struct ct_feed ct_feed_t;

/** Where the arrays of batches lie: memory that a device copies fast.  Called by the thread that
 * opens and closes the feed. */
typedef struct ct_feed_mem {
  int (*alloc)(void *ctx, size_t bytes, void **out); /**< 64-byte aligned; CT_OK or a code */
  void (*release)(void *ctx, void *p);               /**< NULL is fine */
  void *ctx;
} ct_feed_mem_t;

typedef struct ct_feed_opts {
  int rank, size;
  int64_t epoch, cursor; /**< where it begins */
  int workers;
  int one_epoch;     /**< 1: it ends with the epoch */
  int bytes;         /**< 1: samples stay as they are stored (ct_dataset_is_bytes()) */
  ct_feed_mem_t mem; /**< alloc NULL: plain host memory */
} ct_feed_opts_t;

/** Local.  From (epoch, cursor) through the end of that epoch and on into the next ones for ever
 * (the caller stops asking), or with one_epoch to its end.  Borrows the data set, which must
 * outlive it; reads are under the reader's own lock.  workers + 2 batches are allocated now, none
 * later (with 0 workers one).  CT_ERR_ARG: a cursor beyond the samples; bytes of a data set that
 * has none. */
int ct_feed_open(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o,
                 ct_feed_t **out);
/** Hot.  The next batch, waiting for it if it is not ready; *out is NULL after the last one
 * (one_epoch). A worker's error (unreadable shard, label out of range: CT_ERR_DATA, names file,
 * sample, label, classes) is returned here, at the batch it concerns; the next call goes on with
 * the batch after it. */
int ct_feed_next(ct_feed_t *f, const ct_batch_t **out);
/** Hot.  The batch that the next ct_feed_next() will return, if it is ready and without an error;
 * else NULL. Does not wait.  It stays as it is until the ct_feed_next() behind the one that returns
 * it. */
const ct_batch_t *ct_feed_ahead(ct_feed_t *f);
/** What the i-th thread that makes batches did with its time so far, the caller's with 0 workers;
 * NULL beyond the last.  Borrowed. */
const ct_io_times_t *ct_feed_times(const ct_feed_t *f, int i);
/** Largest n this rank can get. */
int ct_feed_max(const ct_feed_t *f);
/** Ends the workers; NULL is fine. */
void ct_feed_close(ct_feed_t *f);

#endif
