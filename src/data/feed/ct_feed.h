/** \file ct_feed.h  Prefetches batches: reads and converts them in worker threads.  Layer 2.  All
 * functions are local.
 *
 * A feed goes through the steps of an epoch, starting at a cursor, for one rank.  Worker threads
 * prepare the next batches; with 0 workers a batch is made when it is requested. */
#ifndef CT_FEED_H
#define CT_FEED_H
#include "data/ct_dataset.h"
#include "data/feed/ct_io_times.h"
#include "data/order/ct_sampler.h"

#define CT_SKIPS_LOGGED 4
/** A sample that could not be read or decoded, and the one that replaces it. */
typedef struct ct_skip {
  int64_t id;      /**< number of the damaged sample */
  int64_t instead; /**< number of the sample that replaces it */
  char why[320];   /**< names file and sample */
} ct_skip_t;

/** The local batch of one rank in one step, borrowed from the feed until the next ct_feed_next() or
 * close. */
typedef struct ct_batch {
  int64_t epoch;                 /**< epoch of the global batch */
  int64_t cursor;                /**< position of the global batch in the epoch, in samples */
  int64_t global;                /**< samples of the step on all ranks */
  int64_t first;                 /**< position of x[0] within the global batch */
  int n;                         /**< samples of this rank; may be 0 */
  float *x;                      /**< [n, C, H, W] plain, 64-byte aligned, with capacity for the
                                  largest n */
  float *extra[CT_INPUTS_EXTRA]; /**< [n, …] of each extra input, plain */
  uint8_t *bytes;                /**< [n] samples as stored but transformed; x is NULL then */
  int32_t *labels;  /**< [n], or one for each pixel or voxel; zeros if the data has targets */
  int32_t *labels2; /**< mixup, cutmix: [n], label of the sample that is mixed in; else NULL */
  float *mix;       /**< mixup, cutmix: [n], weight of labels[i]; else NULL */
  float *weights;   /**< [n] sample weights; NULL: all are equal */
  float *targets;   /**< [n, K] if the data has real-valued targets; else NULL */
  void *more[CT_TARGETS_MORE]; /**< [n, …] of each further target: int32_t labels or float values,
                                    as ct_dataset_t.more_labels says */
  int64_t *ids;                /**< [n] sample numbers */
  int skipped; /**< number of samples that could not be read or decoded (ct_dataset_t.skip) */
  ct_skip_t skip[CT_SKIPS_LOGGED]; /**< the first of these samples */
} ct_batch_t;

typedef struct ct_feed ct_feed_t;

/** Allocates the arrays of batches, in memory from which a device copies fast.  Called only by the
 * thread that opens and closes the feed. */
typedef struct ct_feed_mem {
  int (*alloc)(void *ctx, size_t bytes, void **out); /**< 64-byte aligned; CT_OK or a code */
  void (*release)(void *ctx, void *p);               /**< p may be NULL */
  void *ctx;
} ct_feed_mem_t;

typedef struct ct_feed_opts {
  int rank, size;
  int64_t epoch;  /**< epoch in which the feed begins */
  int64_t cursor; /**< position in this epoch, in samples */
  int workers;
  int one_epoch;     /**< 1: the feed ends at the end of the epoch */
  int bytes;         /**< 1: samples are not converted (ct_dataset_is_bytes()) */
  ct_feed_mem_t mem; /**< alloc NULL: plain host memory */
} ct_feed_opts_t;

/** Local.  Opens a feed that starts at (epoch, cursor) and continues through all following epochs,
 * or with one_epoch ends with that epoch.  Borrows the data set, which must outlive it.  Allocates
 * workers + 2 batches (with 0 workers one), and none later.  CT_ERR_ARG: the cursor is beyond the
 * samples, or o->bytes without ct_dataset_is_bytes(). */
int ct_feed_open(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o,
                 ct_feed_t **out);
/** Pure.  Returns the bytes of the batches and buffers of a feed with batches of up to n samples,
 * without the workspace of transforms and of decoders.  \a bytes: as in ct_feed_opts_t. */
size_t ct_feed_bytes(const ct_dataset_t *d, int64_t n, int workers, int bytes);
/** Hot.  Returns the next batch and waits until it is ready; *out is NULL after the last one
 * (one_epoch).  An error of a worker is returned here, in place of the batch that it concerns; the
 * next call returns the batch after it.  CT_ERR_DATA, for example for a label out of range, names
 * file, sample, label and classes. */
int ct_feed_next(ct_feed_t *f, const ct_batch_t **out);
/** Hot.  Peeks at the batch that the next ct_feed_next() will return; NULL if it is not ready or
 * has an error.  Does not wait.  The batch stays valid until the second next call of
 * ct_feed_next(). */
const ct_batch_t *ct_feed_ahead(ct_feed_t *f);
/** Returns the time breakdown of the i-th thread that makes batches; with 0 workers that of the
 * caller.  NULL after the last.  Borrowed. */
const ct_io_times_t *ct_feed_times(const ct_feed_t *f, int i);
/** Returns the largest n that a batch of this rank can have. */
int ct_feed_max(const ct_feed_t *f);
/** Stops the workers and frees \a f, which may be NULL. */
void ct_feed_close(ct_feed_t *f);

#endif
